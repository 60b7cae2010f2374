// A fuzzer's entry: libFuzzer's own main calls it with one input after another.
#include "tests/fuzz/harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto& all = krait::fuzz::harnesses();
  CHECK_EQ(all.size(), size_t{1});
  all.front().run({data, size});
  return 0;
}
