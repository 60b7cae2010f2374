// GET /openapi.json
#include "coordinator/api/openapi.h"

#include "coordinator/api/json_body.h"

namespace krait::api {

void openapi(Api& api, const http::Request&, const ResponderPtr& responder) {
  respond_json(*responder, 200, dump(openapi_document(api.options())));
}

}  // namespace krait::api
