#pragma once

namespace kvsim {

// Kernels are written once, over vectors of fixed length that the compiler maps to what a processor
// has, and are compiled for several instruction sets; the best one is chosen when the program
// starts. So one binary serves all machines, and -march=native is not needed.

/// What a kernel may want to know of the instruction set that it is compiled for.
struct Avx512 {
  static constexpr int kFloatRegisters = 32 * 16;  ///< floats that fit into all registers
};
struct Avx2 {
  static constexpr int kFloatRegisters = 16 * 8;
};
struct Baseline {
  static constexpr int kFloatRegisters = 16 * 4;
};

enum class InstructionSet { baseline, avx2, avx512 };

/// The widest that this processor has; less, so that tests reach every variant, if the environment
/// variable KVSIM_TEST_INSTRUCTIONS says avx2 or baseline.
InstructionSet instruction_set();

/// The variant of a kernel that this processor runs best.
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

/// Only code that is inlined into a kernel is compiled for the kernel's instruction set.
#define KVSIM_INLINE [[gnu::always_inline]] inline

/// Compiles `template <class Target> KVSIM_INLINE Result kernel(...)` for every instruction set;
/// best_kernel is the one to call. `Parameters` and `Arguments` are in parentheses.
#define KVSIM_KERNEL(Result, kernel, Parameters, Arguments)                           \
  KVSIM_AVX512 Result kernel##_avx512 Parameters { return kernel<Avx512> Arguments; } \
  KVSIM_AVX2 Result kernel##_avx2 Parameters { return kernel<Avx2> Arguments; }       \
  Result kernel##_baseline Parameters { return kernel<Baseline> Arguments; }          \
  Result(*const best_##kernel) Parameters =                                           \
      best_of(kernel##_avx512, kernel##_avx2, kernel##_baseline);
