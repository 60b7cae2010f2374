#include "common/base/result.h"

#include <array>

namespace krait {
namespace {

constexpr auto kTable = std::to_array<ErrcInfo>({
#define ERROR(name, label, http_status, openai_type) {label, http_status, openai_type},
#include "common/base/errors.def"
#undef ERROR
});

}  // namespace

const ErrcInfo& errc_info(Errc code) {
  return kTable.at(static_cast<size_t>(code));
}

bool is_errc(uint8_t number) {
  return number < kTable.size();
}

std::string to_string(const Error& error) {
  const auto label = errc_info(error.code).label;
  return error.param.empty() ? fmt::format("{}: {}", label, error.message)
                             : fmt::format("{}: {} ({})", label, error.message, error.param);
}

}  // namespace krait
