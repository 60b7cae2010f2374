// GET /v1/models and /v1/models/NAME
#include "common/base/limits.h"
#include "coordinator/api/api.h"
#include "coordinator/api/json_body.h"
#include "coordinator/http/url.h"

namespace krait::api {
namespace {

nlohmann::ordered_json entry(Api& api) {
  nlohmann::ordered_json model;
  model["id"] = api.model().name;
  model["object"] = "model";
  model["created"] = api.options().created_s;
  model["owned_by"] = "krait";
  // A config's max_position_embeddings is no limit here: a scan has none, and rotary angles go on beyond it.
  model["max_model_len"] = limits::kMaxPromptTokens;
  return model;
}

}  // namespace

void list_models(Api& api, const http::Request&, const ResponderPtr& responder) {
  nlohmann::ordered_json list;
  list["object"] = "list";
  list["data"] = nlohmann::ordered_json::array({entry(api)});
  respond_json(*responder, 200, dump(list));
}

void get_model(Api& api, const http::Request& request, const ResponderPtr& responder) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const auto name = http::percent_decode(std::string_view(request.path).substr(kPrefix.size()));
  const Status known = check_model(api.model(), name.value_or(request.path));
  if (!known.ok()) {
    respond_error(api, *responder, known.error());
    return;
  }
  respond_json(*responder, 200, dump(entry(api)));
}

}  // namespace krait::api
