// A model: its config and its tensors, in a folder with one file or several and their index, or in a GGUF file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/model_config.h"
#include "common/model/model_plan.h"
#include "common/model/partition.h"
#include "common/weights/gguf.h"
#include "common/weights/slice_reader.h"
#include "common/weights/tensor_source.h"

namespace krait {

struct CheckpointTensor final {
  std::shared_ptr<const TensorSource> source;
  const StoredTensor* tensor = nullptr;  // of `source`
};

/// What a checkpoint is made of, where that is not a folder of files.
struct CheckpointParts final {
  std::string name;         // what errors call it; also its directory()
  std::string config_json;  // as config.json has it
  std::vector<std::shared_ptr<const TensorSource>> sources;
};

/// Shared by all ranks of a process; reading is safe from any thread. Its files stay open, so that whatever takes their
/// place in the folder later is another checkpoint, for whoever opens that.
class Checkpoint final {
 public:
  /// Reads config.json, generation_config.json (where there is one) and the headers of model.safetensors, or of every
  /// file that model.safetensors.index.json names. What opens fits its config: every tensor of the plan is there with
  /// its shape and a float dtype, and every tensor of the files is used by the plan or harmless.
  /// Errors name the file, and the tensor or field in `param`.
  /// A file in place of a folder is a GGUF file, which holds its config.
  static Result<std::shared_ptr<const Checkpoint>> open(const std::string& model);
  /// The same of parts that are at hand, held to the same rules.
  static Result<std::shared_ptr<const Checkpoint>> make(CheckpointParts parts);

  /// What was opened: a folder, or the file that gguf() is.
  const std::string& directory() const { return directory_; }
  /// The file that it is, with its tokenizer; nullptr for a folder.
  const GgufFile* gguf() const { return gguf_.get(); }
  const ModelConfig& config() const { return plan_.config; }
  const ModelPlan& plan() const { return plan_; }

  /// nullptr where there is none.
  const CheckpointTensor* find(std::string_view name) const;
  /// Names of all tensors, ascending.
  std::vector<std::string> tensor_names() const;

  /// A reader of the rank's slice, or nothing for an optional tensor that is absent.
  Result<std::optional<SliceReader>> slice(const TensorSpec& spec, const Partition& partition, int rank) const;

  /// 128 bits as 32 hexadecimal digits over both configs and every tensor's name, dtype, shape and content. Tensors
  /// above 64 KiB are sampled (16 blocks of 4 KiB, ends included): it tells models apart, it does not find a flipped
  /// bit. The same however the tensors are spread over files. Of the content that open() found: see check_unchanged().
  const std::string& fingerprint() const { return fingerprint_; }

  /// kCorrupt, naming the file, where one was written to since open(): what is read from it now need not be the
  /// fingerprint's, nor fit what was read before.
  Status check_unchanged() const;

 private:
  Checkpoint() = default;
  Status read_folder();
  Status read_gguf();
  Status read_config();
  Status take_config();
  Status add_tensors();
  Status add_file(const std::string& name);
  Status add_source(std::shared_ptr<const TensorSource> source);
  Status add_indexed_files();
  Status finish();
  Status check_plan() const;
  Status take_fingerprint();

  std::string directory_;
  std::string config_json_;
  std::optional<std::string> generation_config_json_;
  ModelPlan plan_;
  std::string fingerprint_;
  std::shared_ptr<const GgufFile> gguf_;  // one of sources_
  std::vector<std::shared_ptr<const TensorSource>> sources_;
  std::map<std::string, CheckpointTensor, std::less<>> tensors_;
};

}  // namespace krait
