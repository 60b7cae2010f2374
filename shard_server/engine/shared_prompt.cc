// The part of the engine that reads a long prompt together with other ranks, each of which holds the whole model. A
// layer needs of the rows before it their last state only. So each rank takes a part of the rows through all layers,
// one layer behind the rank before it, whose state of that layer it receives; the bits are those of one rank that reads
// everything. P ranks and L layers need (L + P - 1) / (P L) of one rank's time.
//
// What earlier steps have read has left its states at the sequence's home, which is last: from there they go to whoever
// is first, layer by layer and ahead of need.
#include <algorithm>
#include <array>
#include <utility>

#include "shard_server/engine/engine.h"

namespace krait::shard {
namespace {

// The first reader is that far ahead of home.
constexpr size_t kLayersAhead = limits::kMaxWorld - 1;
static_assert(kLayersAhead + 1 <= limits::kMaxPairMessages);

int64_t bytes_of(const StateRange& range) {
  return range.floats * static_cast<int64_t>(sizeof(float));
}

/// Sends a slot's states to another rank, a few layers ahead of what this rank itself is about to overwrite.
class StatesAhead final {
 public:
  /// To nobody if `to` is -1.
  StatesAhead(collectives::Communicator& peers, int to, float* slot, std::span<const StateRange> layers)
      : peers_(peers), to_(to), slot_(slot), layers_(layers) {}

  /// Layer `layer` has been sent, and those after it are on their way.
  Status keep_ahead_of(size_t layer) {
    for (; to_ >= 0 && next_ < layers_.size() && next_ <= layer + kLayersAhead; ++next_) {
      const StateRange& range = layers_[next_];
      if (range.floats == 0) continue;
      ASSIGN_OR_RETURN(sent_[next_ % sent_.size()], peers_.begin_send(to_, bytes_of(range), slot_ + range.first));
    }
    const auto sent = std::exchange(sent_[layer % sent_.size()], std::nullopt);
    return sent ? peers_.finish(*sent) : Status{};
  }

 private:
  collectives::Communicator& peers_;
  const int to_;
  float* const slot_;
  const std::span<const StateRange> layers_;
  size_t next_ = 0;
  std::array<std::optional<collectives::Ticket>, kLayersAhead + 1> sent_;  // by layer, around
};

}  // namespace

Status Engine::run_shared(const wire::StepRun& run, collectives::GroupCommunicators& communicators) {
  const PromptPart part = prompt_part(homes_, run);
  if (part.rows == 0) return {};
  collectives::Communicator& peers = communicators.peers();
  const int home = homes_.of(run.sequence_slot);
  const int first = first_reader(homes_, run);
  const bool moves = run.in_slot >= 0 && first != home;
  float* const slot = states_.slot(run.out_slot);
  StatesAhead ahead(peers, moves && homes_.rank == home ? first : -1, slot, block_states_);
  // From whom a layer's state comes: the rank before, or home.
  const int from = moves && homes_.rank == first ? home : part.before;
  std::optional<collectives::Ticket> sent;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const StateRange& range = block_states_[b];
    RETURN_IF_ERROR(ahead.keep_ahead_of(b));
    if (range.floats > 0 && from >= 0) RETURN_IF_ERROR(peers.recv(from, bytes_of(range), slot + range.first));
    RETURN_IF_ERROR(run_layer(*blocks_[b], from >= 0 ? run.out_slot : run.in_slot, communicators));
    if (range.floats == 0 || part.after < 0) continue;
    // It travels while the next layer is computed.
    if (sent) RETURN_IF_ERROR(peers.finish(*sent));
    ASSIGN_OR_RETURN(sent, peers.begin_send(part.after, bytes_of(range), slot + range.first));
  }
  return sent ? peers.finish(*sent) : Status{};
}

/// All of this rank's rows through one block, in pieces that its buffers hold.
Status Engine::run_layer(const Block& block, int32_t in_slot, collectives::GroupCommunicators& communicators) {
  const auto rows = static_cast<int64_t>(ids_.size());
  for (int64_t begin = 0; begin < rows; begin += max_rows_) {
    const int64_t count = std::min<int64_t>(max_rows_, rows - begin);
    kernels::Run piece = runs_[0];
    piece.rows = static_cast<int32_t>(count);
    piece.in_slot = begin == 0 ? in_slot : piece.out_slot;
    const Batch batch{.ids = std::span(ids_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
                      .runs = std::span(&piece, 1)};
    PendingSum sum{sum_, std::nullopt};
    const BlockContext here = context(communicators, begin, sum);
    RETURN_IF_ERROR(block.start(here, batch));
    RETURN_IF_ERROR(block.complete(here, batch));
    RETURN_IF_ERROR(communicators.peers().progress());  // states that are on their way
  }
  return {};
}

}  // namespace krait::shard
