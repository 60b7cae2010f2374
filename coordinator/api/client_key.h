// Who a client is when several share the server.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/http/responder.h"

namespace krait::api {

/// The key of an Authorization header, empty where there is none.
std::string_view bearer_key(const http::Request& request);

/// What a key becomes where it is told on: it tells nothing of the key.
std::string key_hash(std::string_view key);

/// The address that the request comes from, without its port.
std::string peer_address(const http::Request& request);

}  // namespace krait::api
