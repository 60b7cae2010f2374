// POST /v1/completions and /v1/chat/completions
#include <algorithm>

#include "coordinator/api/chat_request.h"
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
               fmt::format("'{}' and 'n' ask for {} sequences; this server takes {} at once", request.prompt_field(),
                           asked, most),
               request.chat ? "n" : "prompt"};
}

void answer(Result<CompletionRequest> completion, Api& api, const http::Request& request,
            const ResponderPtr& responder) {
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

}  // namespace

void completions(Api& api, const http::Request& request, const ResponderPtr& responder) {
  answer(read_completion_request(request.body, api.model()), api, request, responder);
}

void chat_completions(Api& api, const http::Request& request, const ResponderPtr& responder) {
  answer(read_chat_request(request.body, api.model()), api, request, responder);
}

}  // namespace krait::api
