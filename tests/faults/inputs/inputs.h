#pragma once

#include <string>
#include <string_view>

// What the fuzzers do with an input. Each returns if all is well, throws or crashes if not; the
// finds of the past are run through them by an ordinary test.

namespace kvsim::faults {

/// Text for one of the parsers of specs, lists, budgets, selections, shards, configuration files
/// and recipes, which the first character chooses: it is understood, or a UsageError or, of a
/// recipe, a DataError. What a spec, an amount or a shard says of itself is understood again, and
/// says the same.
void check_text(std::string_view input);

/// Sizes and numbers for the kernels: every instruction set that this processor has gives the
/// same, to the last bit where kernels promise that, else within their tolerance. `modules` is the
/// folder of the modules kernels_avx512, kernels_avx2 and kernels_baseline.
void check_kernels(std::string_view input, const std::string& modules);

/// The bytes of a trace file: reading all of it gives the numbers of the seed, or a DataError. What
/// ends the process inside libhdf5 has to be refused by Trace(file), which looks from a child.
void check_trace(std::string_view input);

}  // namespace kvsim::faults
