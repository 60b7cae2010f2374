// A named piece of shared memory. Its maker holds a lock on it for as long as it has a name, so that a name whose maker
// is gone, however it went, can be told from one in use (also across PID namespaces) and removed by the next run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace krait::collectives {

/// Every segment's name in /dev/shm begins with this.
inline constexpr std::string_view kSegmentPrefix = "krait-";
std::string segment_name(std::string_view group, uint64_t epoch);

class Segment final {
 public:
  /// Makes and maps `bytes` of zeros, all of them there (a later write cannot fail). kResourceExhausted names the bytes
  /// asked for and those free; kUnavailable if the name is in use.
  static Result<Segment> create(const std::string& name, int64_t bytes);
  /// Maps the first `bytes` of a segment whose maker lives; nothing if there is none of that name and size (yet).
  static Result<std::optional<Segment>> open(const std::string& name, int64_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) = delete;
  /// Unmaps; a maker also takes the name away if it is still there.
  ~Segment();

  std::byte* data() const { return data_; }
  /// Takes the name away, which need not be there any more; the mappings stay.
  void unlink();

 private:
  Segment(std::string name, std::byte* data, int64_t bytes, int lock_fd);

  std::string name_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int lock_fd_ = -1;  // the maker's, until unlink()
};

/// Takes away the name of a segment whose maker is gone. Whether it did.
bool remove_if_stale(const std::string& name);
/// All such names of this user in /dev/shm; how many they were.
int remove_stale_segments();

}  // namespace krait::collectives
