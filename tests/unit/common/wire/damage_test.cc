// Damaged bytes: every answer is a value, and none costs memory out of proportion.
#include <gtest/gtest.h>

#include "common/base/limits.h"
#include "common/wire/codec.h"
#include "tests/support/allocations/allocations.h"
#include "tests/support/random_message.h"

namespace krait::wire {
namespace {

// The copy of the bytes is 1; our structs are up to 20 times their least form on the wire, and vectors do not grow. The
// rest is what an exception and its message may take.
constexpr size_t kMemoryFactor = 32;
constexpr size_t kMemoryExtraBytes = 16 * 1024;

Result<Message> decode_within_memory(std::span<const std::byte> bytes) {
  const size_t before = test::allocations().bytes;
  Result<Message> result = decode(bytes);
  const size_t used = test::allocations().bytes - before;
  EXPECT_LE(used, bytes.size() * kMemoryFactor + kMemoryExtraBytes) << bytes.size() << " bytes";
  return result;
}

TEST(Damage, TheCountingSeesAllocations) {
  const size_t before = test::allocations().bytes;
  EXPECT_TRUE(decode(encode(Cancel{})).ok());
  EXPECT_GT(test::allocations().bytes, before);
}

TEST(Damage, CutAtEveryByte) {
  SplitMix64 random(11);
  for (size_t kind = 0; kind < test::kMessageKinds; ++kind) {
    const Message message = test::random_message(random, kind, 5);
    const std::vector<std::byte> bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const Result<Message> result = decode_within_memory(std::span(bytes).first(size));
      ASSERT_FALSE(result.ok()) << message_name(message) << " cut to " << size << " of " << bytes.size();
    }
  }
}

TEST(Damage, RandomBytesChanged) {
  SplitMix64 random(12);
  size_t refused = 0, total = 0;
  for (int round = 0; round < 400; ++round) {
    for (size_t kind = 0; kind < test::kMessageKinds; ++kind) {
      std::vector<std::byte> bytes = encode(test::random_message(random, kind, 6));
      const uint64_t changes = 1 + random.below(8);
      for (uint64_t i = 0; i < changes; ++i) {
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(uint64_t{1} << random.below(8));
      }
      const Result<Message> result = decode_within_memory(bytes);
      ++total;
      if (!result.ok()) {
        ++refused;
        ASSERT_TRUE(result.error().code == Errc::kProtocol || result.error().code == Errc::kCorrupt);
      } else {
        // What is let through is a message within all limits: it travels again.
        const Result<Message> again = decode(encode(*result));
        ASSERT_TRUE(again.ok()) << to_string(again.error());
      }
    }
  }
  // Most flips hit a payload; that some are refused shows that the flips reach the structure.
  EXPECT_GT(refused, total / 20);
  EXPECT_LT(refused, total);
}

TEST(Damage, OnlyNoise) {
  SplitMix64 random(13);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(8 * (1 + random.below(32)));
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(random.below(256));
    if (random.below(2) == 0) {  // A right segment table lets the noise in further.
      const uint32_t table[2] = {0, static_cast<uint32_t>(bytes.size() / 8 - 1)};
      std::memcpy(bytes.data(), table, sizeof(table));
    }
    EXPECT_FALSE(decode_within_memory(bytes).ok());
  }
}

// A list pointer that claims 2^29 - 1 elements of no size costs nothing on the wire; Cap'n Proto counts them as words.
TEST(Damage, AListOfManyNothingsIsRefused) {
  std::vector<std::byte> bytes = encode(Tokens{.step = 1});
  ASSERT_EQ(bytes.size() % 8, 0u);
  const uint64_t huge_list_of_void = (uint64_t{0x1FFFFFFF} << 35) | 1;
  bool reached = false;
  for (size_t offset = 16; offset + 8 <= bytes.size(); offset += 8) {
    std::vector<std::byte> damaged = bytes;
    std::memcpy(damaged.data() + offset, &huge_list_of_void, 8);
    const Result<Message> result = decode_within_memory(damaged);
    if (!result.ok() && offset >= 24) reached = true;
  }
  EXPECT_TRUE(reached);
}

}  // namespace
}  // namespace krait::wire
