#include "coordinator/tokenizer/json_part.h"

namespace krait::tokenizer {

const Json* find_field(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<const Json*> field(const Json& object, const char* key, const Where& where) {
  if (!object.is_object()) return corrupt(where, "must be an object");
  const Json* found = find_field(object, key);
  if (found == nullptr) return corrupt(where.child(key), "is missing");
  return found;
}

Result<std::string> string_field(const Json& object, const char* key, const Where& where) {
  ASSIGN_OR_RETURN(const Json* value, field(object, key, where));
  if (!value->is_string()) return corrupt(where.child(key), "must be a string");
  return value->get<std::string>();
}

Result<bool> bool_field(const Json& object, const char* key, bool absent, const Where& where) {
  if (!object.is_object()) return corrupt(where, "must be an object");
  const Json* value = find_field(object, key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return corrupt(where.child(key), "must be true or false");
  return value->get<bool>();
}

Result<int64_t> int_field(const Json& object, const char* key, int64_t low, int64_t high, const Where& where) {
  ASSIGN_OR_RETURN(const Json* value, field(object, key, where));
  if (!value->is_number_integer()) return corrupt(where.child(key), "must be an integer");
  // A number beyond int64 is kept unsigned by the parser.
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(high)) {
    return corrupt(where.child(key), fmt::format("must be at most {}", high));
  }
  const int64_t number = value->get<int64_t>();
  if (number < low || number > high) {
    return corrupt(where.child(key), fmt::format("must be from {} to {}", low, high));
  }
  return number;
}

Result<int32_t> to_token_id(const Json& value, const Where& where) {
  if (!value.is_number_integer()) return corrupt(where, "a token id must be an integer");
  const bool high = value.is_number_unsigned() && value.get<uint64_t>() >= static_cast<uint64_t>(limits::kMaxVocab);
  if (high || value.get<int64_t>() < 0) {
    return corrupt(where, fmt::format("a token id must be from 0 to {}", limits::kMaxVocab - 1));
  }
  return value.get<int32_t>();
}

}  // namespace krait::tokenizer
