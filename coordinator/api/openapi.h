// The API described in OpenAPI 3.1, made from the tables that requests are read and routed by.
#pragma once

#include <nlohmann/json.hpp>

#include "coordinator/api/api.h"

namespace krait::api {

/// The whole document, for the model that is served and the options in force (keys, strict fields).
nlohmann::ordered_json openapi_document(const ApiOptions& options);

}  // namespace krait::api
