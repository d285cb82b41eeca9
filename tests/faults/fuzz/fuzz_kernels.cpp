#include <cstdint>

#include "tests/faults/inputs/inputs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvsim::faults::check_kernels({reinterpret_cast<const char*>(data), size}, KVSIM_KERNEL_MODULES);
  return 0;
}
