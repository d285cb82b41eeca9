#include <cstdint>

#include "sim/sweep/in_parallel.h"
#include "tests/faults/inputs/inputs.h"

// The number of cores is no part of what is parsed; without it the fuzzer needs no engine.
int kvsim::default_threads() { return 1; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvsim::faults::check_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
