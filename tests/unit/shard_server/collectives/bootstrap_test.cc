#include "shard_server/collectives/bootstrap.h"

#include <gtest/gtest.h>

namespace krait::collectives {
namespace {

TEST(Bootstrap, TextAndBack) {
  for (const Bootstrap& bootstrap : {Bootstrap{"shared_memory", "krait-g0-7-00ff", ""},
                                     Bootstrap{"tcp", "krait-g0", "10.0.0.1:7100"}, Bootstrap{"tcp", "g", "[::1]:7"}}) {
    const auto back = Bootstrap::parse(bootstrap.to_text());
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->transport, bootstrap.transport);
    EXPECT_EQ(back->name, bootstrap.name);
    EXPECT_EQ(back->address, bootstrap.address);
  }
}

TEST(Bootstrap, OtherTextIsRefused) {
  for (const std::string text : {"", "krait-g0-7", "a@b"}) {
    const auto parsed = Bootstrap::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Errc::kProtocol);
  }
  // Whatever else it is, it is no reason to end: the transport or the name is refused later.
  EXPECT_TRUE(Bootstrap::parse(":@").ok());
}

}  // namespace
}  // namespace krait::collectives
