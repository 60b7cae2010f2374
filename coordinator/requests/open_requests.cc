#include "coordinator/requests/open_requests.h"

#include <utility>

#include "common/base/fair_room.h"

namespace krait::requests {

class OpenRequests::Held final {
 public:
  Held(OpenRequests& all, std::string client, const Part& part) : all_(all), client_(std::move(client)), part_(part) {}
  ~Held() { all_.give_back(client_, part_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  OpenRequests& all_;
  const std::string client_;
  const Part part_;
};

OpenRequests::Hold OpenRequests::take(const GenerationSpec& spec) {
  Part part;
  part.sequences = static_cast<int64_t>(spec.sequences.size());
  for (const SequenceSpec& sequence : spec.sequences)
    part.tokens += static_cast<int64_t>(sequence.tokens.size());
  const std::scoped_lock lock(mutex_);
  const auto own = clients_.try_emplace(spec.client).first;
  if (!has_fair_room(all_.sequences, own->second.sequences, part.sequences, max_sequences_) ||
      !has_fair_room(all_.tokens, own->second.tokens, part.tokens, max_tokens_)) {
    if (own->second.sequences == 0) clients_.erase(own);
    return nullptr;
  }
  auto hold = std::make_shared<const Held>(*this, spec.client, part);
  for (Part* const to : {&all_, &own->second}) {
    to->sequences += part.sequences;
    to->tokens += part.tokens;
  }
  return hold;
}

void OpenRequests::give_back(const std::string& client, const Part& part) {
  const std::scoped_lock lock(mutex_);
  const auto at = clients_.find(client);
  for (Part* const from : {&all_, &at->second}) {
    from->sequences -= part.sequences;
    from->tokens -= part.tokens;
  }
  if (at->second.sequences == 0) clients_.erase(at);
}

}  // namespace krait::requests
