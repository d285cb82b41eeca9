#pragma once

namespace kvsim {

// Kernels are written once, over the vectors of an instruction set (float_lanes.h), and compiled
// for each. The program chooses the best variant when it starts, so one binary runs on all machines
// without -march=native.

// The instruction sets that kernels are compiled for.
struct Avx512 {
  static constexpr int kRegisters = 32;
};
struct Avx2 {
  static constexpr int kRegisters = 16;
};
struct Baseline {
  static constexpr int kRegisters = 16;
};

enum class InstructionSet { baseline, avx2, avx512 };

/// The widest set that this processor supports. The environment variable KVSIM_TEST_INSTRUCTIONS
/// (avx2 or baseline) limits it, so that tests reach every variant.
InstructionSet instruction_set();

/// The variant of a kernel for instruction_set().
template <class Kernel>
Kernel* best_of(Kernel* avx512, Kernel* avx2, Kernel* baseline) {
  const InstructionSet set = instruction_set();
  return set == InstructionSet::avx512 ? avx512 : set == InstructionSet::avx2 ? avx2 : baseline;
}

}  // namespace kvsim

#if defined(__x86_64__) && defined(__GNUC__)
#define KVSIM_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,popcnt")]]
#define KVSIM_AVX2 [[gnu::target("avx2,fma,popcnt")]]
#else
#define KVSIM_AVX512
#define KVSIM_AVX2
#endif

/// Before a loop: no iteration reads what another one writes.
#if defined(__clang__)
#define KVSIM_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define KVSIM_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

/// For helpers of kernels: only inlined code is compiled for the kernel's instruction set.
#define KVSIM_INLINE [[gnu::always_inline]] inline

/// Compiles `template <class Target> KVSIM_INLINE Result kernel(...)` for every instruction set;
/// call best_kernel. `Parameters` and `Arguments` are in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define KVSIM_KERNEL(Result, kernel, Parameters, Arguments)                           \
  KVSIM_AVX512 Result kernel##_avx512 Parameters { return kernel<Avx512> Arguments; } \
  KVSIM_AVX2 Result kernel##_avx2 Parameters { return kernel<Avx2> Arguments; }       \
  Result kernel##_baseline Parameters { return kernel<Baseline> Arguments; }          \
  Result(*const best_##kernel) Parameters =                                           \
      best_of(kernel##_avx512, kernel##_avx2, kernel##_baseline);
// NOLINTEND(bugprone-macro-parentheses)
