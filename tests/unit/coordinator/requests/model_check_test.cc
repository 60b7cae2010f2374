// Groups that serve something else than this coordinator tokenizes for, cancels that cannot be sent, and the end of
// all.
#include "tests/unit/coordinator/requests/core_fixture.h"

namespace krait::test {
namespace {

using ModelCheck = CoreFixture;

void make_for(ModelCheck& test, const std::string& model, const std::string& fingerprint) {
  requests::CoreOptions options;
  options.incarnation = 11;
  options.groups = {"g0"};
  options.addresses = {"address0"};
  options.model = model;
  options.fingerprint = fingerprint;
  options.tokenizer = ModelCheck::demo_tokenizer();
  test.core.emplace(options, test.clock, requests::CoreObserver{});
}

TEST_F(ModelCheck, AGroupOfAnotherNameOrCheckpointDoesNotServe) {
  auto status = serving();
  status.fingerprint = "abc";
  make_for(*this, "m", "abc");
  core->from_group(0, status);
  EXPECT_TRUE(core->groups()[0].serving);

  make_for(*this, "other", "abc");
  core->from_group(0, status);
  EXPECT_FALSE(core->groups()[0].serving);
  EXPECT_NE(core->groups()[0].status.detail.find("'m'"), std::string::npos);

  make_for(*this, "m", "def");
  core->from_group(0, status);
  EXPECT_FALSE(core->groups()[0].serving);
  EXPECT_NE(core->groups()[0].status.detail.find("checkpoint"), std::string::npos);
  const auto sink = submit(spec_of());
  ASSERT_TRUE(sink->error().has_value());
  EXPECT_EQ(sink->error()->code, Errc::kUnavailable);
}

TEST_F(ModelCheck, ACancelThatCouldNotBeSentIsSaidAgain) {
  make(1);
  core->from_group(0, serving());
  submit(spec_of());
  const uint64_t request = number();
  core->cancel(last_id);
  const auto cancels = take<wire::Cancel>();
  ASSERT_EQ(cancels.size(), 1u);
  core->send_failed(0, cancels[0]);
  core->tick();
  const auto again = take<wire::Cancel>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].request, request);
  core->tick();
  EXPECT_TRUE(take<wire::Cancel>().empty());
}

TEST_F(ModelCheck, FailAllEndsEveryRequestWithWords) {
  make(1);
  core->from_group(0, serving());
  const auto one = submit(spec_of());
  const auto two = submit(spec_of(3));
  EXPECT_EQ(take<wire::Submit>().size(), 4u);
  core->fail_all(Error{Errc::kUnavailable, "the server is shutting down", ""});
  for (const auto& sink : {one, two}) {
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->message, "the server is shutting down");
  }
  EXPECT_EQ(core->open_requests(), 0u);
  EXPECT_EQ(take<wire::Cancel>().size(), 4u);
}

}  // namespace
}  // namespace krait::test
