#include "shard_server/service/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "common/base/json_text.h"
#include "common/base/limits.h"
#include "common/tensor/dtype.h"
#include "shard_server/collectives/codec.h"
#include "shard_server/service/collective_plan.h"

namespace krait::shard {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFileVersion = 1;
constexpr std::string_view kVersionField = "krait_collective_plan";

/// An object of the file and where it stands, as "sums[3]": whatever is wrong is named by file and field.
class Fields final {
 public:
  Fields(const Json& object, const std::string& path, std::string where)
      : object_(object), path_(path), where_(std::move(where)) {}

  Error wrong(std::string_view field, std::string_view why) const {
    const std::string name =
        where_.empty() || field.empty() ? where_ + std::string(field) : fmt::format("{}.{}", where_, field);
    return Error{Errc::kCorrupt, fmt::format("{}: {}: {}", path_, name, why), name};
  }

  /// That it is an object of these fields and no others.
  Status are(std::initializer_list<std::string_view> names) const {
    if (!object_.is_object()) return wrong("", "it is no object");
    for (const std::string_view name : names) {
      if (!object_.contains(name)) return wrong(name, "it is missing");
    }
    for (const auto& [name, value] : object_.items()) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        return wrong(name, "nobody here knows this field");
    }
    return {};
  }
  Result<int64_t> whole(std::string_view name, int64_t low, int64_t high) const {
    const Json& value = object_.at(name);
    const bool fits =
        value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT64_MAX} : value.is_number_integer();
    if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
      return wrong(name, fmt::format("it is no whole number from {} to {}", low, high));
    return value.get<int64_t>();
  }
  Result<std::string> words(std::string_view name) const {
    const Json& value = object_.at(name);
    if (!value.is_string() || std::cmp_greater(value.get_ref<const std::string&>().size(), limits::kMaxWireNameBytes))
      return wrong(name, fmt::format("it is no string of up to {} bytes", limits::kMaxWireNameBytes));
    return value.get<std::string>();
  }
  Result<bool> flag(std::string_view name) const {
    const Json& value = object_.at(name);
    if (!value.is_boolean()) return wrong(name, "it is neither true nor false");
    return value.get<bool>();
  }
  Result<std::string> codec() const {
    ASSIGN_OR_RETURN(std::string name, words("codec"));
    if (const auto known = collectives::find_codec(name); !known.ok()) return wrong("codec", known.error().message);
    return name;
  }
  /// Every element of a list, by `read(fields of the element, value)`.
  template <class T, class Read>
  Status list(std::string_view name, int64_t most, std::vector<T>& into, const Read& read) const {
    const Json& values = object_.at(name);
    if (!values.is_array()) return wrong(name, "it is no list");
    if (std::cmp_greater(values.size(), most)) return wrong(name, fmt::format("it has more than {} elements", most));
    into.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      RETURN_IF_ERROR(read(Fields(values[i], path_, fmt::format("{}[{}]", name, i)), into[i]));
    return {};
  }

 private:
  const Json& object_;
  const std::string& path_;
  const std::string where_;
};

Status read_sum(const Fields& fields, wire::SumCodec& sum) {
  RETURN_IF_ERROR(fields.are({"layer", "operation", "codec"}));
  ASSIGN_OR_RETURN(const int64_t layer, fields.whole("layer", 0, limits::kMaxLayers - 1));
  sum.layer = static_cast<uint32_t>(layer);
  ASSIGN_OR_RETURN(sum.operation, fields.words("operation"));
  ASSIGN_OR_RETURN(sum.codec, fields.codec());
  return {};
}

Status read_size(const Fields& fields, wire::SizeCodec& row) {
  RETURN_IF_ERROR(fields.are({"bytes", "codec"}));
  ASSIGN_OR_RETURN(row.bytes, fields.whole("bytes", 1, limits::kMaxCollectiveMessageBytes));
  ASSIGN_OR_RETURN(row.codec, fields.codec());
  return {};
}

Status read_algorithm(const Fields& fields, wire::SumAlgorithm& row) {
  RETURN_IF_ERROR(fields.are({"codec", "bytes", "two_shot", "stage_bytes"}));
  ASSIGN_OR_RETURN(row.codec, fields.codec());
  ASSIGN_OR_RETURN(row.bytes, fields.whole("bytes", 1, limits::kMaxCollectiveMessageBytes));
  ASSIGN_OR_RETURN(row.two_shot, fields.flag("two_shot"));
  ASSIGN_OR_RETURN(row.stage_bytes,
                   fields.whole("stage_bytes", limits::kMinCollectiveStageBytes, limits::kMaxCollectiveStageBytes));
  return {};
}

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

template <class T, class Line>
std::string list_text(std::string_view name, const std::vector<T>& values, const Line& line) {
  std::string text = fmt::format(" \"{}\": [", name);
  for (size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}\n  {}", i == 0 ? "" : ",", line(values[i]));
  return text + (values.empty() ? "]" : "\n ]");
}

}  // namespace

std::string plan_file_text(const PlanFile& file) {
  std::string text = fmt::format("{{\n \"{}\": {},\n \"fingerprint\": {},\n \"world\": {},\n \"dtype\": {},\n",
                                 kVersionField, kFileVersion, quoted(file.fingerprint), file.world, quoted(file.dtype));
  text += list_text("sums", file.plan.sums, [](const wire::SumCodec& sum) {
    return fmt::format(R"({{"layer": {}, "operation": {}, "codec": {}}})", sum.layer, quoted(sum.operation),
                       quoted(sum.codec));
  });
  text += ",\n" + list_text("codecs_by_size", file.plan.codecs_by_size, [](const wire::SizeCodec& row) {
            return fmt::format(R"({{"bytes": {}, "codec": {}}})", row.bytes, quoted(row.codec));
          });
  text += ",\n" + list_text("algorithms", file.plan.algorithms, [](const wire::SumAlgorithm& row) {
            return fmt::format(R"({{"codec": {}, "bytes": {}, "two_shot": {}, "stage_bytes": {}}})", quoted(row.codec),
                               row.bytes, row.two_shot, row.stage_bytes);
          });
  return text + "\n}\n";
}

Result<PlanFile> parse_plan_file(std::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(const Json json, parse_json_object(text, path, limits::kMaxPlanBytes));
  const Fields fields(json, path, "");
  // Before all else: another version may have other fields.
  if (!json.contains(kVersionField)) return fields.wrong(kVersionField, "it is missing: this is no file of krait-tune");
  if (const auto version = fields.whole(kVersionField, kFileVersion, kFileVersion); !version.ok())
    return fields.wrong(kVersionField, fmt::format("this program reads version {} only", kFileVersion));
  RETURN_IF_ERROR(fields.are({kVersionField, "fingerprint", "world", "dtype", "sums", "codecs_by_size", "algorithms"}));
  PlanFile file;
  ASSIGN_OR_RETURN(file.fingerprint, fields.words("fingerprint"));
  ASSIGN_OR_RETURN(const int64_t world, fields.whole("world", 1, limits::kMaxWorld));
  file.world = static_cast<uint32_t>(world);
  ASSIGN_OR_RETURN(file.dtype, fields.words("dtype"));
  if (!weight_type_from_name(file.dtype)) return fields.wrong("dtype", "it is no type of weights");
  RETURN_IF_ERROR(fields.list("sums", limits::kMaxHiddenSums, file.plan.sums, read_sum));
  RETURN_IF_ERROR(fields.list("codecs_by_size", limits::kMaxSizeCodecs, file.plan.codecs_by_size, read_size));
  RETURN_IF_ERROR(fields.list("algorithms", limits::kMaxSumAlgorithms, file.plan.algorithms, read_algorithm));
  if (const auto rows = size_codecs_of(file.plan); !rows.ok())
    return fields.wrong("codecs_by_size", rows.error().message);
  if (const auto table = algorithms_of(file.plan); !table.ok())
    return fields.wrong("algorithms", table.error().message);
  return file;
}

}  // namespace krait::shard
