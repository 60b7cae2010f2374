// A client of the simulation: what it asked for, what it has seen, and whether that is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/requests/generation.h"
#include "tests/simulation/record.h"

namespace krait::simulation {

class Client final : public requests::GenerationSink {
 public:
  Client(std::string name, const requests::GenerationSpec& spec, int64_t deadline_ns, const Clock& clock,
         Record& record);

  void on_chunk(requests::OutputChunk chunk) override;
  void on_error(const Error& error, uint32_t retry_after_s) override;

  /// The client goes away: it must hear nothing from now on.
  void disconnect();
  /// Its coordinator is gone, and with it the connection.
  void lose_coordinator();

  bool over() const { return ended_ == sequences_.size() || error_ || gone_; }
  bool answered() const { return ended_ == sequences_.size(); }
  const std::optional<Error>& error() const { return error_; }
  int64_t deadline_ns() const { return deadline_ns_; }
  const std::string& name() const { return name_; }

 private:
  struct Sequence final {
    std::vector<int32_t> answer;  // what a whole answer is
    std::vector<float> scores;
    std::vector<int32_t> prompt;
    bool may_stop = false;
    size_t received = 0;
    size_t scored = 0;
    bool ended = false;
  };

  void wrong(const std::string& what);
  void take_scores(Sequence& sequence, const requests::OutputChunk& chunk);
  void take_end(Sequence& sequence, const requests::SequenceEnd& end);

  const std::string name_;
  const int64_t deadline_ns_;
  const Clock& clock_;
  Record& record_;
  std::vector<Sequence> sequences_;
  size_t ended_ = 0;
  std::optional<Error> error_;
  bool gone_ = false;
};

}  // namespace krait::simulation
