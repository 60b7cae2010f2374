#include "tests/support/gguf_writer.h"

#include "common/base/units.h"

namespace krait::test {

std::string gguf_text(std::string_view text) {
  return gguf_bytes<uint64_t>(text.size()).append(text);
}

GgufWriter& GgufWriter::key(std::string_view name, GgufType type, std::string_view value) {
  ++keys_;
  metadata_ += gguf_text(name) + gguf_bytes(static_cast<uint32_t>(type));
  metadata_ += value;
  return *this;
}

GgufWriter& GgufWriter::texts(std::string_view name, std::span<const std::string> values) {
  std::string array = gguf_bytes(static_cast<uint32_t>(GgufType::kText)) + gguf_bytes<uint64_t>(values.size());
  for (const std::string& value : values)
    array += gguf_text(value);
  return key(name, GgufType::kArray, array);
}

GgufWriter& GgufWriter::tensor(GgufTensorToWrite tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

std::string GgufWriter::file(int64_t alignment, uint32_t version) const {
  std::string out =
      "GGUF" + gguf_bytes(version) + gguf_bytes<uint64_t>(tensors_.size()) + gguf_bytes(keys_) + metadata_;
  std::string data;
  const auto pad = [&](std::string& bytes) {
    bytes.resize(static_cast<size_t>(round_up(static_cast<int64_t>(bytes.size()), alignment)), '\0');
  };
  for (const GgufTensorToWrite& tensor : tensors_) {
    out += gguf_text(tensor.name) + gguf_bytes(static_cast<uint32_t>(tensor.shape.size()));
    for (auto axis = tensor.shape.rbegin(); axis != tensor.shape.rend(); ++axis)
      out += gguf_bytes(static_cast<uint64_t>(*axis));
    pad(data);
    out += gguf_bytes(tensor.type) + gguf_bytes<uint64_t>(data.size());
    data += tensor.bytes;
  }
  if (!tensors_.empty()) pad(out);
  return out + data;
}

}  // namespace krait::test
