// A table of fields as a JSON Schema.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "coordinator/api/completion_request.h"
#include "coordinator/api/fields.h"

namespace krait::api {

/// Of an object that Fields::check takes, as far as a table can say it: rules between fields are not in it. `strict`:
/// unknown fields are refused.
nlohmann::ordered_json object_schema(std::span<const FieldSpec> table, const ModelInfo& model, bool strict);

}  // namespace krait::api
