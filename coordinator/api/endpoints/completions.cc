// POST /v1/completions
#include <algorithm>

#include "coordinator/api/completion_answer.h"

namespace krait::api {
namespace {

/// A request with more sequences than a group ever holds at once would be told to try again for ever.
Status check_queue(Api& api, const CompletionRequest& request) {
  uint64_t most = 0;
  for (const auto& group : api.cluster().groups()) {
    if (group.serving) most = std::max(most, uint64_t{group.status.slots} + group.status.max_queue);
  }
  const uint64_t asked = request.prompts.size() * request.n;
  if (most == 0 || asked <= most) return {};
  return Error{Errc::kInvalidArgument,
               fmt::format("'prompt' and 'n' ask for {} sequences; this server takes {} at once", asked, most),
               "prompt"};
}

}  // namespace

void completions(Api& api, const http::Request& request, const ResponderPtr& responder) {
  auto completion = read_completion_request(request.body, api.model());
  if (!completion.ok()) {
    respond_error(api, *responder, completion.error());
    return;
  }
  Status fits = take_unknown_fields(api, completion->unknown_fields);
  if (fits.ok()) fits = check_queue(api, *completion);
  if (!fits.ok()) {
    respond_error(api, *responder, fits.error());
    return;
  }
  std::make_shared<CompletionAnswer>(api, *std::move(completion), request, responder)->start();
}

}  // namespace krait::api
