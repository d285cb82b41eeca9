#include "sim/base/vector_targets.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace kvsim {
namespace {

InstructionSet widest_supported() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return InstructionSet::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::avx2;
#endif
  return InstructionSet::baseline;
}

InstructionSet requested() {
  const char* const variable = std::getenv("KVSIM_TEST_INSTRUCTIONS");
  const std::string name = variable == nullptr ? "" : variable;
  if (name == "baseline") return InstructionSet::baseline;
  return name == "avx2" ? InstructionSet::avx2 : InstructionSet::avx512;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet set = std::min(widest_supported(), requested());
  return set;
}

}  // namespace kvsim
