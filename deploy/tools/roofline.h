// What a step must read and multiply at least, and how long this machine needs for that alone.
#pragma once

#include <cstdint>

#include "common/model/model_plan.h"
#include "common/tensor/dtype.h"
#include "deploy/tools/bench_server.h"

namespace krait::tools {

struct Work final {
  double bytes = 0;
  double operations = 0;  // of matrix products, a multiply-add is two

  friend Work operator+(const Work& a, const Work& b) { return {a.bytes + b.bytes, a.operations + b.operations}; }
};

/// What the machine does at best, all threads of all ranks together.
struct Peaks final {
  double read_gbytes = 0;  // bytes a nanosecond
  double gops = 0;         // operations a nanosecond; 0: not known
};

/// Of one model in one type of weights on so many ranks. Counted are: each weight that a pass uses, once a pass (a
/// shared transformer as often as it runs; lm_head where a row is sampled); each run's state, read and written; keys
/// and values that attention reads; the operations of all products with weights. Not counted are activations, and the
/// operations of scan, convolution, norms and attention.
class Roofline final {
 public:
  Roofline(const ModelPlan& plan, int ranks, DType dtype);

  Work of(const StepRecord& step) const;
  /// Seconds that reading or multiplying takes, whichever is more.
  static double seconds(const Work& work, const Peaks& peaks);

  const Work& layers() const { return layers_; }  // the operations are those of one row
  int64_t state_bytes() const { return static_cast<int64_t>(state_bytes_); }

 private:
  Work layers_;             // all weights but the head's; operations of one row
  Work head_;               // the same of lm_head
  double state_bytes_ = 0;  // of one sequence
  double kv_bytes_ = 0;     // of one token
};

}  // namespace krait::tools
