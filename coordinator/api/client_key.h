// Who a client is when several share the server.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/http/responder.h"

namespace krait::api {

/// The API key that the request carries, as a hash that tells nothing of it, else the address it comes from. The same
/// at every coordinator. Where no keys are configured, a key is only the name that a client gives itself.
std::string client_key(const http::Request& request);

/// The key of an Authorization header, empty where there is none.
std::string_view bearer_key(const http::Request& request);

}  // namespace krait::api
