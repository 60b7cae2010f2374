#include "coordinator/http/error_body.h"

#include <nlohmann/json.hpp>

namespace krait::http {

std::string error_body(const Error& error) {
  const ErrcInfo& info = errc_info(error.code);
  nlohmann::ordered_json object;
  object["message"] = error.message;
  object["type"] = std::string(info.openai_type);
  object["param"] = error.param.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(error.param);
  object["code"] = std::string(info.label);
  nlohmann::ordered_json body;
  body["error"] = std::move(object);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace krait::http
