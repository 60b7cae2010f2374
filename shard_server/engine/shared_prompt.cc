// The part of the engine that reads a long prompt together with other ranks, each of which holds the whole model. A
// layer needs of the rows before it their last state only. So each rank takes a part of the rows through all layers,
// one layer behind the rank before it, whose state of that layer it receives; the bits are those of one rank that reads
// everything. P ranks and L layers need (L + P - 1) / (P L) of one rank's time.
#include <algorithm>
#include <utility>

#include "shard_server/engine/engine.h"

namespace krait::shard {

namespace {

int64_t bytes_of(const StateRange& range) {
  return range.floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace

/// What the prompt's earlier rows left at home comes to whoever reads the first of these.
Status Engine::bring_state(const wire::StepRun& run, collectives::Communicator& peers) {
  const int home = homes_.of(run.sequence_slot);
  const int first = first_reader(homes_, run);
  if (run.in_slot < 0 || first == home) return {};
  float* const state = states_.slot(run.in_slot);
  collectives::Ticket moved;
  if (homes_.rank == home) {
    ASSIGN_OR_RETURN(moved, peers.begin_send(first, states_.slot_bytes(), state));
    return peers.finish(moved);
  }
  if (homes_.rank != first) return {};
  ASSIGN_OR_RETURN(moved, peers.begin_recv(home, states_.slot_bytes(), state));
  return peers.finish(moved);
}

Status Engine::run_shared(const wire::StepRun& run, collectives::GroupCommunicators& communicators) {
  collectives::Communicator& peers = communicators.peers();
  RETURN_IF_ERROR(bring_state(run, peers));
  const PromptPart part = prompt_part(homes_, run);
  std::optional<collectives::Ticket> sent;
  for (size_t b = 0; b < blocks_.size() && part.rows > 0; ++b) {
    const StateRange& range = block_states_[b];
    float* const state = states_.slot(run.out_slot) + range.first;
    const bool has_state = range.floats > 0;
    if (has_state && part.before >= 0) {
      ASSIGN_OR_RETURN(const auto came, peers.begin_recv(part.before, bytes_of(range), state));
      RETURN_IF_ERROR(peers.finish(came));
    }
    RETURN_IF_ERROR(run_layer(*blocks_[b], part.before >= 0 ? run.out_slot : run.in_slot, communicators));
    if (!has_state || part.after < 0) continue;
    // It travels while the next layer is computed.
    if (sent) RETURN_IF_ERROR(peers.finish(*sent));
    ASSIGN_OR_RETURN(sent, peers.begin_send(part.after, bytes_of(range), state));
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
    const Batch batch{
        std::span(ids_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), std::span(&piece, 1), {}, {}};
    PendingSum sum{sum_, std::nullopt};
    const BlockContext here = context(communicators, begin, sum);
    RETURN_IF_ERROR(block.start(here, batch));
    RETURN_IF_ERROR(block.complete(here, batch));
  }
  return {};
}

}  // namespace krait::shard
