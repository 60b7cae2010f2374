#include "coordinator/http/request_id.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/rng.h"

namespace krait::http {

bool is_valid_request_id(std::string_view id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !id.empty() && id.size() <= limits::kMaxRequestIdBytes && std::all_of(id.begin(), id.end(), allowed);
}

std::string request_id_from(std::optional<std::string_view> client_id) {
  if (client_id && is_valid_request_id(*client_id)) return std::string(*client_id);
  return fmt::format("req-{:016x}{:016x}", random_u64(), random_u64());
}

}  // namespace krait::http
