// POST /v1/completions
#include "coordinator/api/completion_answer.h"

namespace krait::api {

void completions(Api& api, const http::Request& request, const ResponderPtr& responder) {
  auto completion = read_completion_request(request.body, api.model());
  if (!completion.ok()) {
    respond_error(api, *responder, completion.error());
    return;
  }
  if (api.options().strict_fields && !completion->unknown_fields.empty()) {
    const std::string& field = completion->unknown_fields.front();
    respond_error(api, *responder, Error{Errc::kInvalidArgument, fmt::format("'{}' is not known here", field), field});
    return;
  }
  std::make_shared<CompletionAnswer>(api, *std::move(completion), request, responder)->start();
}

}  // namespace krait::api
