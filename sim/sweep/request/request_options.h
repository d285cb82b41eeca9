#pragma once

#include <span>
#include <string>
#include <vector>

#include "policies/registry/allocation.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

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
};

/// The request of these options; the caller adds traces, policies and budgets. Throws UsageError,
/// which names the option as the program does, for a value that is not allowed.
SweepRequest request_of(const RequestOptions& options);

/// Parts of it.
Selection selection_of(const RequestOptions& options);
Allocation allocation_of(const RequestOptions& options);
int threads_of(const RequestOptions& options);

/// Returns the seed. Throws UsageError for a negative one.
std::int64_t checked_seed(std::int64_t seed);

/// The budgets of all lists, separated by commas, ranges with a step among them: "5%,0.2,256",
/// "5%..50%:5%". Each is taken once. Throws UsageError.
std::vector<Amount> parse_budgets(std::span<const std::string> lists);
std::vector<Amount> parse_budgets(const std::string& list);

}  // namespace kvsim
