#pragma once

#include "sim/cli/options.h"
#include "sim/sweep/run_sweep.h"

namespace kvsim::cli {

/// The options that verbs with replays share: selection, mode, seed, allocation, device, threads
/// and verbosity.
po::options_description session_options();

/// The request of these options; the caller adds traces, policies and budgets.
SweepRequest request_from(const po::variables_map& values);

/// Budgets separated by commas: "5%,0.2,256". Throws UsageError.
std::vector<Amount> parse_budgets(const std::string& list);

/// The announced memory: `bytes` plus what the process takes now, as "about 20 MiB of memory on 2
/// threads".
std::string memory_note(std::size_t bytes, int threads);

/// Runs the plan: announces it, shows progress, and ends cleanly on Ctrl-C. `finished` is called as
/// by kvsim::run_sweep(). Throws what that throws; Interrupted says how many units are finished.
void run_plan(const SweepPlan& plan, const Backend& backend, const po::variables_map& values,
              const UnitFinished& finished);

}  // namespace kvsim::cli
