#include "shard_server/service/collective_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/file.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "shard_server/collectives/codec.h"
#include "shard_server/service/plan_file.h"

namespace krait::shard {
namespace {

using collectives::Codec;

constexpr std::string_view kExact = "exact";
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kFast = "fast";
constexpr int64_t kFastExactBytes = 64 * kKiB;  // where nobody has measured: packing pays for more

Error protocol(std::string message, std::string param) {
  return Error{Errc::kProtocol, std::move(message), std::move(param)};
}

Result<Codec> known_codec(const std::string& name) {
  auto codec = collectives::find_codec(name);
  if (!codec.ok()) return protocol(codec.error().message, "codec");
  return codec;
}

/// Index among the model's hidden sums by layer and operation.
std::map<std::pair<int, std::string>, size_t> places_of(const std::vector<HiddenSum>& sums) {
  std::map<std::pair<int, std::string>, size_t> places;
  for (size_t i = 0; i < sums.size(); ++i)
    places.emplace(std::pair(sums[i].layer, std::string(sums[i].operation)), i);
  return places;
}

Result<PlanFile> read_file_for(const std::string& path, const SumChoice& choice, const Checkpoint& checkpoint) {
  auto text = read_text_file(path, limits::kMaxPlanBytes);
  if (!text.ok()) {
    return Error{text.error().code,
                 fmt::format("--collectives {}: {} (krait-tune makes such a file)", choice.mode, text.error().message),
                 "collectives-plan"};
  }
  ASSIGN_OR_RETURN(PlanFile file, parse_plan_file(*text, path));
  const auto foreign = [&](std::string_view field, const auto& theirs, const auto& ours) {
    return Error{Errc::kInvalidArgument,
                 fmt::format("{}: {}: made for {}, this group has {}", path, field, theirs, ours), std::string(field)};
  };
  if (file.fingerprint != checkpoint.fingerprint())
    return foreign("fingerprint", "model " + file.fingerprint, checkpoint.fingerprint());
  if (file.world != choice.world) return foreign("world", fmt::format("{} ranks", file.world), choice.world);
  if (file.dtype != choice.dtype) return foreign("dtype", "weights of " + file.dtype, choice.dtype);
  const std::vector<HiddenSum> sums = hidden_sums(checkpoint.plan());
  wire::Form form;
  form.codec = kExact;
  form.plan.sums = file.plan.sums;
  if (const auto codecs = codecs_of(form, checkpoint.plan()); !codecs.ok())
    return Error{Errc::kCorrupt, fmt::format("{}: sums: {}", path, codecs.error().message), "sums"};
  // None is there twice, all are the model's.
  if (file.plan.sums.size() != sums.size()) {
    return Error{Errc::kCorrupt,
                 fmt::format("{}: sums: {} of the model's {} sums are missing", path,
                             sums.size() - file.plan.sums.size(), sums.size()),
                 "sums"};
  }
  return file;
}

void log_choice(const GroupSums& sums, const std::string& path) {
  std::map<std::string, int> counts;
  for (const auto& sum : sums.plan.sums)
    ++counts[sum.codec];
  std::string words;
  for (const auto& [codec, count] : counts)
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, codec);
  log_info("sums between ranks as {} has it: {}", path, words);
}

}  // namespace

std::vector<std::string> sum_modes() {
  std::vector<std::string> modes = collectives::codec_names();
  modes.emplace_back(kAuto);
  modes.emplace_back(kFast);
  return modes;
}

std::string default_plan_path(const Checkpoint& checkpoint, uint32_t world) {
  return fmt::format("{}{}collectives-{}.json", checkpoint.directory(), checkpoint.gguf() != nullptr ? "." : "/",
                     world);
}

Result<GroupSums> choose_sums(const SumChoice& choice, const Checkpoint& checkpoint) {
  const bool is_auto = choice.mode == kAuto;
  const bool is_fast = choice.mode == kFast;
  GroupSums sums;
  if (!is_auto && !is_fast) {
    RETURN_IF_ERROR(collectives::find_codec(choice.mode));
    sums.codec = choice.mode;
  }
  if (choice.world == 1) return sums;
  const std::string path =
      choice.plan_path.empty() && is_auto ? default_plan_path(checkpoint, choice.world) : choice.plan_path;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(PlanFile file, read_file_for(path, choice, checkpoint));
    sums.plan.algorithms = std::move(file.plan.algorithms);
    if (is_auto) sums.plan.sums = std::move(file.plan.sums);
    if (is_fast) sums.plan.codecs_by_size = std::move(file.plan.codecs_by_size);
  }
  if (is_auto) log_choice(sums, path);
  if (is_fast) {
    if (sums.plan.codecs_by_size.empty()) {
      sums.plan.codecs_by_size = {{kFastExactBytes, std::string(kExact)}, {limits::kMaxCollectiveMessageBytes, "int8"}};
    }
    log_warning(
        "--collectives fast chooses how sums travel by their size: the same request may get other tokens beside "
        "others, "
        "and the bits of an answer are not promised");
  }
  return sums;
}

Result<std::vector<collectives::SizeCodec>> size_codecs_of(const wire::CollectivePlan& plan) {
  std::vector<collectives::SizeCodec> rows;
  for (const auto& row : plan.codecs_by_size) {
    ASSIGN_OR_RETURN(const Codec codec, known_codec(row.codec));
    rows.push_back({row.bytes, codec});
  }
  if (const Status status = collectives::check_size_codecs(rows); !status.ok())
    return protocol("codecs_by_size: " + status.error().message, "codecs_by_size");
  return rows;
}

Result<std::shared_ptr<const collectives::SumTable>> algorithms_of(const wire::CollectivePlan& plan) {
  std::vector<collectives::SumAlgorithm> rows;
  for (const auto& row : plan.algorithms) {
    ASSIGN_OR_RETURN(const Codec codec, known_codec(row.codec));
    rows.push_back({codec, row.bytes, row.two_shot, row.stage_bytes});
  }
  auto table = collectives::SumTable::make(std::move(rows));
  if (!table.ok()) return protocol("algorithms: " + table.error().message, "algorithms");
  return std::make_shared<const collectives::SumTable>(*std::move(table));
}

Result<SumCodecs> codecs_of(const wire::Form& form, const ModelPlan& model) {
  ASSIGN_OR_RETURN(const Codec rest, known_codec(form.codec));
  ASSIGN_OR_RETURN(auto by_size, size_codecs_of(form.plan));
  if (!by_size.empty()) return SumCodecs(std::move(by_size));
  if (form.plan.sums.empty()) return SumCodecs(rest);
  const std::vector<HiddenSum> sums = hidden_sums(model);
  auto places = places_of(sums);
  std::vector<Codec> codecs(sums.size(), rest);
  for (const auto& sum : form.plan.sums) {
    const auto place = places.find({static_cast<int>(sum.layer), sum.operation});
    if (place == places.end()) {
      return protocol(
          fmt::format("layer {}, {}: the model has no such sum, or it is named twice", sum.layer, sum.operation),
          "sums");
    }
    ASSIGN_OR_RETURN(codecs[place->second], known_codec(sum.codec));
    places.erase(place);
  }
  return SumCodecs(model, codecs);
}

}  // namespace krait::shard
