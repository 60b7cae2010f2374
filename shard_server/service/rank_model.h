// What a rank's commands work on: an engine and its communicator in a shard server, something that is cheap to run
// where only the protocol matters.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "shard_server/collectives/communicator.h"

namespace krait::shard {

/// What has been loaded, for metrics.
struct RankFigures final {
  std::string numerics_id;
  std::string collective_plan;  // Engine::collective_plan()
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t nonfinite_weights = 0;
  collectives::CodecStatistics collectives{};
};

/// Belongs to one thread, but for what is said to be for any. After an error only drop() may follow.
class RankModel {
 public:
  virtual ~RankModel() = default;

  /// Meets the other ranks of the epoch. Once `leaving` is set (by another thread), it ends at once with an error.
  virtual Status form(const wire::Form& form, const std::atomic<bool>& leaving) = 0;
  /// After form().
  virtual Result<wire::Ready> load(const wire::Load& load) = 0;
  /// After load(). Together with the other ranks.
  virtual Result<wire::StepDone> step(const wire::Step& step) = 0;
  /// Lets go of everything.
  virtual void drop() = 0;
  /// Ends whatever this and the other ranks wait for, or will, with an error. From any thread.
  virtual void abort(const std::string& reason) = 0;
  /// From any thread.
  virtual RankFigures figures() const = 0;
};

}  // namespace krait::shard
