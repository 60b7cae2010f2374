// TCP ranks as real processes and among strangers: deaths, stops, cut links, connections of nobody, frames that no rank
// sends.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "common/base/units.h"
#include "shard_server/collectives/group_communicators.h"
#include "shard_server/collectives/tcp.h"
#include "shard_server/collectives/tcp_mesh.h"
#include "shard_server/collectives/tcp_signals.h"
#include "tests/support/rank_processes.h"

namespace krait::collectives {
namespace {

TEST(Tcp, ProcessesSum) {
  for (const int world : {1, 2, 5}) {
    const Options options = group_of_processes(world);
    std::vector<pid_t> children;
    for (int rank = 0; rank < world; ++rank)
      children.push_back(
          fork_rank(make_tcp_communicator, options, rank, [](Communicator& c) { return sum_often(c, 200); }));
    for (const pid_t child : children)
      EXPECT_EQ(exit_code(child), 0);
  }
}

TEST(Tcp, RankZeroMayComeLast) {
  const Options options = group_of_processes(2);
  const pid_t other = fork_rank(make_tcp_communicator, options, 1, [](Communicator& c) { return sum_often(c, 3); });
  usleep(50'000);
  EXPECT_EQ(exit_code(fork_rank(make_tcp_communicator, options, 0, [](Communicator& c) { return sum_often(c, 3); })),
            0);
  EXPECT_EQ(exit_code(other), 0);
}

// Starts three ranks that sum for ever, sends `signal` to one of them; the codes of the others' errors.
std::vector<int> codes_after(int signal, int victim, int64_t timeout_ns) {
  Options options = group_of_processes(3);
  options.timeout_ns = timeout_ns;
  void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const running = new (shared) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(fork_rank(make_tcp_communicator, options, rank, [running](Communicator& communicator) {
      if (sum_often(communicator, 10) != 0) return 200;
      running->fetch_add(1);
      const int result = sum_often(communicator, 1'000'000'000);
      const bool for_good = !communicator.barrier().ok();
      return result == 1 && for_good ? static_cast<int>(communicator.health().error().code) : 201;
    }));
  }
  for (int tries = 0; running->load() < 3 && tries < 10'000; ++tries)
    usleep(1000);
  EXPECT_EQ(running->load(), 3);
  usleep(10'000);
  EXPECT_EQ(kill(children[static_cast<size_t>(victim)], signal), 0);
  std::vector<int> codes;
  for (int rank = 0; rank < 3; ++rank) {
    if (rank != victim) codes.push_back(exit_code(children[static_cast<size_t>(rank)]));
  }
  kill(children[static_cast<size_t>(victim)], SIGKILL);
  EXPECT_EQ(exit_code(children[static_cast<size_t>(victim)]), 1000 + SIGKILL);
  munmap(shared, 4096);
  return codes;
}

TEST(Tcp, AKilledRankFailsTheOthersLongBeforeTheDeadline) {
  for (const int victim : {0, 1, 2}) {
    const int64_t start_ns = SteadyClock().now_ns();
    for (const int code : codes_after(SIGKILL, victim, 3600 * kSecond))
      EXPECT_EQ(code, static_cast<int>(Errc::kUnavailable)) << victim;
    EXPECT_LT(SteadyClock().now_ns() - start_ns, 1800 * kSecond);
  }
}

TEST(Tcp, AStoppedRankFailsTheOthersAtTheDeadline) {
  for (const int victim : {0, 2}) {
    for (const int code : codes_after(SIGSTOP, victim, 1 * kSecond))
      EXPECT_EQ(code, static_cast<int>(Errc::kDeadlineExceeded)) << victim;
  }
}

TEST(Tcp, StrangersAreShownOutAndHarmNothing) {
  const Options options = group_of_processes(3);
  std::vector<Fd> guests;
  const SteadyClock clock;
  const auto knock = [&](std::string_view words) {
    auto guest = connect_to(options.address, {clock, clock.now_ns() + 1 * kSecond});
    if (!guest.ok()) return;  // nobody listens any more
    static_cast<void>(send(guest->get(), words.data(), words.size(), MSG_NOSIGNAL));
    guests.push_back(std::move(guest).value());
  };
  // More than there are places for guests, some silent, some talkative.
  std::thread crowd([&] {
    for (int i = 0; i < 30; ++i) {
      knock("");
      knock("GET / HTTP/1.1\r\nHost: krait\r\n\r\n");
      knock(std::string(1000, 'x'));
    }
  });
  const auto late = [&](int rank) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Options mine = options;
    mine.rank = rank;
    return mine;
  };
  const auto results = run_ranks(make_tcp_communicator, 3, late, [&](Communicator& c) -> Status {
    return sum_often(c, 20) == 0 ? Status() : c.health();
  });
  crowd.join();
  for (const Status& result : results)
    EXPECT_TRUE(result.ok()) << to_string(result.error());
}

TEST(Tcp, RanksOfAnotherEpochAreShownOutAndTheirTurnComes) {
  const Options first = group_of_processes(2);
  Options second = first;
  second.epoch = random_u64();
  // The second forming's rank 1 knocks while rank 0 waits for the first one's.
  std::thread early([&] {
    Options mine = second;
    mine.rank = 1;
    const auto made = make_tcp_communicator(mine);
    EXPECT_TRUE(made.ok()) << to_string(made.error());
    EXPECT_EQ(made.ok() ? sum_often(**made, 3) : 1, 0);
  });
  for (const Options& group : {first, second}) {
    std::thread other([&] {
      if (group.epoch == second.epoch) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      Options mine = group;
      mine.rank = 1;
      const auto made = make_tcp_communicator(mine);
      EXPECT_EQ(made.ok() ? sum_often(**made, 3) : 1, 0);
    });
    const auto made = make_tcp_communicator(group);
    EXPECT_TRUE(made.ok()) << to_string(made.error());
    EXPECT_EQ(made.ok() ? sum_often(**made, 3) : 1, 0);
    other.join();
  }
  early.join();
}

// Whoever knows the epoch is a rank, but what it sends is checked all the same: a plain program plays rank 1.
void expect_refused_by_rank_0(std::string_view sent, const std::string& what) {
  Options options = group_of_processes(2);
  std::thread honest([&] {
    auto made = make_tcp_communicator(options);
    ASSERT_TRUE(made.ok()) << to_string(made.error());
    (*made)->set_deadline_ns(SteadyClock().now_ns() + 60 * kSecond);
    float value = 1;
    const Status status = (*made)->all_reduce(1, 1, &value, &value);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_EQ(status.error().code, Errc::kProtocol) << what << ": " << to_string(status.error());
  });
  Options mine = options;
  mine.rank = 1;
  const SteadyClock clock;
  const Patience patience{clock, clock.now_ns() + 10 * kSecond};
  auto mesh = form_tcp_mesh(mine, block_config(mine), patience);
  ASSERT_TRUE(mesh.ok()) << to_string(mesh.error());
  EXPECT_TRUE(send_whole(mesh->data[0].get(), sent.data(), sent.size(), patience).ok());
  honest.join();
}

TEST(Tcp, FramesThatNoRankSendsFailTheGroup) {
  for (const size_t bytes : {size_t{96}, size_t{100'000}})
    expect_refused_by_rank_0(std::string(bytes, 'n'), "noise");
}

TEST(Tcp, FramesOutOfTurnFailTheGroup) {
  using Frame = TcpSignals::Frame;
  const auto refused = [](const char* what, const std::function<void(Frame&)>& change) {
    Frame frame;
    frame.which = Counter::kPosted;
    change(frame);
    expect_refused_by_rank_0({reinterpret_cast<const char*>(&frame), sizeof frame}, what);
  };
  refused("a later step", [](Frame& frame) { frame.step = 1; });
  refused("an earlier step", [](Frame& frame) { frame.step = -1; });
  refused("a sum before its part", [](Frame& frame) { frame.which = Counter::kReduced; });
  refused("more than was posted is consumed", [](Frame& frame) { frame.consumed = 2; });
  refused("no counter", [](Frame& frame) { frame.which = static_cast<Counter>(9); });
  refused("before the stage", [](Frame& frame) { frame.offset = -1; });
  refused("behind the stage", [](Frame& frame) { frame.bytes = int64_t{1} << 40; });
  refused("more was taken than was sent", [](Frame& frame) { frame.taken = 1; });
  const auto refused_piece = [&](const char* what, const std::function<void(Frame&)>& change) {
    refused(what, [&](Frame& frame) {
      frame.which = Counter::kSent;
      frame.bytes = frame.note.row_bytes = 8;
      change(frame);
    });
  };
  refused_piece("a later piece", [](Frame& frame) { frame.step = 1; });
  refused_piece("a piece of another size than it says", [](Frame& frame) { frame.bytes = 7; });
  refused_piece("a piece elsewhere", [](Frame& frame) { frame.offset = 8; });
  refused_piece("a message below nothing", [](Frame& frame) {
    frame.note.row_bytes = std::numeric_limits<int64_t>::min();
    frame.bytes = 0;
  });
}

// A link that is cut loses packets without a word: here both ends go on reading nothing, so that sends fill up.
TEST(Tcp, APeerThatReadsNothingIsADeadline) {
  Options options = group_of_processes(2);
  options.stage_bytes = limits::kMaxCollectiveStageBytes;
  options.max_rows = 1 << 20;
  std::atomic<bool> done = false;
  std::thread deaf([&] {
    Options mine = options;
    mine.rank = 1;
    const SteadyClock clock;
    auto mesh = form_tcp_mesh(mine, block_config(mine), {clock, clock.now_ns() + 10 * kSecond});
    ASSERT_TRUE(mesh.ok()) << to_string(mesh.error());
    while (!done)
      usleep(1000);
  });
  auto made = make_tcp_communicator(options);
  ASSERT_TRUE(made.ok()) << to_string(made.error());
  (*made)->set_deadline_ns(SteadyClock().now_ns() + 200 * kMs);
  std::vector<float> data(8 << 20, 1.0f);
  const Status status = (*made)->all_reduce(8, 1 << 20, data.data(), data.data());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Errc::kDeadlineExceeded);
  done = true;
  deaf.join();
}

TEST(Tcp, AMissingRankIsADeadlineThatNamesIt) {
  for (const int present : {0, 1}) {
    Options options = group_of_processes(2);
    options.rank = present;
    options.timeout_ns = 50 * kMs;
    const auto made = make_tcp_communicator(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Errc::kDeadlineExceeded) << to_string(made.error());
    if (present == 0) {
      EXPECT_NE(made.error().message.find("rank 1"), std::string::npos) << made.error().message;
    }
  }
}

TEST(Tcp, OfSeveralRanksTheMissingOneIsNamed) {
  Options options = group_of_processes(3);
  options.timeout_ns = 300 * kMs;
  const pid_t other = fork_rank(make_tcp_communicator, options, 1, [](Communicator&) { return 0; });
  const auto made = make_tcp_communicator(options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("rank 2"), std::string::npos) << made.error().message;
  EXPECT_EQ(exit_code(other), 100);
}

TEST(Tcp, AddressesAreChecked) {
  for (const std::string address :
       {"", "nowhere", "127.0.0.1", ":80", "127.0.0.1:http", "host.invalid:80", "1.2.3.4.5:1"}) {
    const auto made = TcpListener::open(address);
    ASSERT_FALSE(made.ok()) << address;
    EXPECT_EQ(made.error().code, Errc::kInvalidArgument) << address;
  }
  const auto taken = TcpListener::open("127.0.0.1:0").value();
  const auto again = TcpListener::open(taken->address());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Errc::kIo);
  EXPECT_NE(again.error().message.find(taken->address()), std::string::npos) << again.error().message;
  // By numbers: not every machine knows a name, not even localhost.
  EXPECT_EQ(resolve_address("127.0.0.1:7").value(), "127.0.0.1:7");
  EXPECT_TRUE(TcpListener::open_towards(taken->address()).value()->address().starts_with("127.0.0.1:"));
}

// Ranks 0 and 1 and ranks 2 and 3 also add among themselves.
TEST(Tcp, PartsOfAGroupFindEachOtherThroughIt) {
  const Options options = group_of_processes(4);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&options, rank] {
      Options mine = options;
      mine.rank = rank;
      const SubGroupRanks pair{.first = rank / 2 * 2, .world = 2, .index = rank / 2};
      auto formed = GroupCommunicators::form(make_tcp_communicator, mine, pair);
      ASSERT_TRUE(formed.ok()) << to_string(formed.error());
      float value = static_cast<float>(rank);
      ASSERT_TRUE((*formed)->sub()->all_reduce(1, 1, &value, &value).ok());
      EXPECT_EQ(value, rank < 2 ? 1.0f : 5.0f);
      ASSERT_TRUE((*formed)->group().all_reduce(1, 1, &value, &value).ok());
      EXPECT_EQ(value, 12.0f);
    });
  }
  for (std::thread& rank : ranks)
    rank.join();
}

}  // namespace
}  // namespace krait::collectives
