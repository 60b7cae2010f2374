// What the API answers with, as JSON Schemas.
#pragma once

#include <nlohmann/json.hpp>

namespace krait::api {

/// Schemas by name, for "#/components/schemas/NAME". Whatever the endpoints send is described here; a test compares
/// the two, and takes a property that no schema has for a fault.
nlohmann::ordered_json answer_schemas();

}  // namespace krait::api
