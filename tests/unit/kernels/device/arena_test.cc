#include "kernels/device/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "common/base/process.h"
#include "common/base/units.h"

namespace krait::kernels {
namespace {

TEST(ArenaTest, PiecesAreAlignedZeroedAndApart) {
  Arena arena;
  std::vector<std::byte*> pieces;
  int64_t total = 0;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{100}, 5 * kMiB, 40 * kMiB, int64_t{3}}) {
    Result<std::byte*> piece = arena.allocate(bytes);
    ASSERT_TRUE(piece.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*piece) % Arena::kAlignment, 0u);
    for (int64_t i = 0; i < bytes; i += 997)
      ASSERT_EQ((*piece)[i], std::byte{0});
    if (bytes > 0) std::memset(*piece, static_cast<int>(pieces.size()) + 1, static_cast<size_t>(bytes));
    pieces.push_back(*piece);
    total += Arena::piece_bytes(bytes);
    EXPECT_EQ(arena.bytes(), total);
  }
  EXPECT_EQ(pieces[1][0], std::byte{2});
  EXPECT_EQ(pieces[3][99], std::byte{4});
  EXPECT_EQ(pieces[4][5 * kMiB - 1], std::byte{5});
  EXPECT_EQ(pieces[6][2], std::byte{7});
}

TEST(ArenaTest, ReserveMapsWhatIsUsedAndNoMore) {
  Arena arena;
  const int64_t total = Arena::piece_bytes(3 * kMiB + 5) + Arena::piece_bytes(70) + Arena::piece_bytes(90 * kMiB);
  ASSERT_TRUE(arena.reserve(total).ok());
  const int64_t mapped = arena.mapped_bytes();
  EXPECT_LT(mapped, total + 4 * kKiB);
  Result<std::byte*> first = arena.allocate(3 * kMiB + 5);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*first) % (2 * kMiB), 0u);
  ASSERT_TRUE(arena.allocate(70).ok());
  Result<std::byte*> last = arena.allocate(90 * kMiB);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(arena.mapped_bytes(), mapped);
  EXPECT_EQ(arena.bytes(), total);
  EXPECT_LE(*last + 90 * kMiB, *first + mapped);
  ASSERT_TRUE(arena.reserve(0).ok());
  EXPECT_EQ(arena.mapped_bytes(), mapped);
}

TEST(ArenaTest, TooMuchIsAnError) {
  Arena arena;
  const Result<std::byte*> absurd = arena.allocate(int64_t{1} << 62);
  ASSERT_FALSE(absurd.ok());
  EXPECT_EQ(absurd.error().code, Errc::kResourceExhausted);
  const Result<std::byte*> beyond_address_space = arena.allocate(int64_t{1} << 56);
  ASSERT_FALSE(beyond_address_space.ok());
  EXPECT_EQ(beyond_address_space.error().code, Errc::kResourceExhausted);
  EXPECT_FALSE(arena.reserve(int64_t{1} << 56).ok());
  EXPECT_EQ(arena.bytes(), 0);
  EXPECT_TRUE(arena.allocate(10).ok());
}

TEST(ArenaTest, MoreThanIsFreeIsRefusedInWordsAndNotByTheKernelLater) {
  Arena arena("what it is for");
  // Address space enough, and memory too for a kernel that overcommits: it would end the process when it is written to.
  const Result<std::byte*> refused = arena.allocate(available_memory_bytes() + kGiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kResourceExhausted);
  for (const char* words : {"MiB are free (machine and cgroup)", "what it is for"}) {
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(arena.mapped_bytes(), 0);
}

}  // namespace
}  // namespace krait::kernels
