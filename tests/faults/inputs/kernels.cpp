#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "tests/faults/inputs/inputs.h"
#include "tests/faults/inputs/kernel_results.h"

namespace kvsim::faults {
namespace {

constexpr const char* kSets[] = {"avx512", "avx2", "baseline"};
constexpr std::size_t kMostNumbers = 1 << 16;

/// Kernels choose their variant when they are loaded, so each set is a module of its own.
KernelResults* load(const std::string& modules, const std::string& set) {
  setenv("KVSIM_TEST_INSTRUCTIONS", set.c_str(), 1);
  void* const module = dlopen((modules + "/kernels_" + set + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  unsetenv("KVSIM_TEST_INSTRUCTIONS");
  if (module == nullptr) throw std::runtime_error(dlerror());
  void* const found = dlsym(module, "kernel_results");
  if (found == nullptr) throw std::runtime_error("a module without kernel_results");
  return reinterpret_cast<KernelResults*>(found);
}

bool agree(const KernelNumber& a, const KernelNumber& b) {
  if (std::memcmp(&a.value, &b.value, sizeof a.value) == 0) return true;
  if (std::isnan(a.value) && std::isnan(b.value)) return true;
  return std::abs(a.value - b.value) <= a.tolerance;
}

}  // namespace

void check_kernels(std::string_view input, const std::string& modules) {
  static KernelResults* const variants[] = {load(modules, kSets[0]), load(modules, kSets[1]),
                                            load(modules, kSets[2])};
  static std::vector<KernelNumber> expected;
  static std::vector<KernelNumber> found;
  expected.resize(kMostNumbers);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(input.data());
  expected.resize(variants[2](bytes, input.size(), expected.data(), kMostNumbers));
  for (int set = 0; set < 2; ++set) {
    found.resize(kMostNumbers);
    found.resize(variants[set](bytes, input.size(), found.data(), kMostNumbers));
    if (found.size() != expected.size()) throw std::logic_error("another count of numbers");
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (agree(found[i], expected[i])) continue;
      throw std::logic_error(std::string(kSets[set]) + " and baseline differ in number " +
                             std::to_string(i) + ": " + std::to_string(found[i].value) + " and " +
                             std::to_string(expected[i].value));
    }
  }
}

}  // namespace kvsim::faults
