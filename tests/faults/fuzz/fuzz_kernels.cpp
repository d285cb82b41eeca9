#include <cstdint>

#include "tests/faults/inputs/inputs.h"
#include "tests/support/build_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvsim::faults::check_kernels({reinterpret_cast<const char*>(data), size},
                               kvsim::test_support::build_tree() / "tests");
  return 0;
}
