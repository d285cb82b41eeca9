#pragma once

#include <span>
#include <string>
#include <vector>

#include "policies/registry/allocation.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Where --help shows an option.
enum class OptionGroup { selection, replay, run, shard };

/// The options that the verbs with replays share, as users of the program and of Python write them.
struct RequestOptions {
  RequestOptions();

  std::vector<std::string> sequences;  ///< names; empty: all
  std::string layers;                  ///< "0-3,7"; empty: all
  std::string heads;                   ///< KV heads, as layers
  ProtocolOptions protocol;
  std::int64_t seed = 0;
  std::string allocate = "uniform";
  int threads;                ///< default_threads() at first
  std::string shard = "1/1";  ///< as in "3/16"

  /// Calls take(group, name, member, help) for each that is not of the protocol: their one
  /// declaration (ProtocolOptions::each()).
  template <class Take>
  void each(const Take& take) {
    take(OptionGroup::selection, "sequences", sequences, "names, separated by commas");
    take(OptionGroup::selection, "layers", layers, "layers, as in 0-3,7");
    take(OptionGroup::selection, "heads", heads, "KV heads, as in 0,2; each with its query heads");
    take(OptionGroup::replay, "seed", seed, "for policies that draw");
    take(OptionGroup::replay, "allocate", allocate,
         "how the budget, then the mean of all heads, is split over layers and heads: uniform, "
         "pyramid, persistence, adaptive, cake, file:PATH, duo:PATH or headkv:PATH");
    take(OptionGroup::run, "threads", threads,
         "units worked on at once; results do not depend on it. Without it OMP_NUM_THREADS, else "
         "the cores that affinity and the quota of a container or job allow");
    take(OptionGroup::shard, "shard", shard,
         "I/N: the I-th of N shares of the work, of equal estimated cost; kvsim merge joins their "
         "files");
  }
};

/// The request of these options; the caller adds traces, policies and budgets. Throws UsageError,
/// which names the option as the program does, for a value that is not allowed.
SweepRequest request_of(const RequestOptions& options);

/// Parts of it.
Selection selection_of(const RequestOptions& options);
AllocationSpec allocation_of(const RequestOptions& options);
int threads_of(const RequestOptions& options);

/// Returns the seed. Throws UsageError for a negative one.
std::int64_t checked_seed(std::int64_t seed);

/// The budgets of all lists, separated by commas, ranges with a step among them: "5%,0.2,256",
/// "5%..50%:5%", "64KiB". Each is taken once. Throws UsageError.
std::vector<Amount> parse_budgets(std::span<const std::string> lists);
std::vector<Amount> parse_budgets(const std::string& list);

}  // namespace kvsim
