#pragma once

#include "policies/registry/spec_list.h"
#include "sim/cli/options.h"
#include "sim/sweep/run_sweep.h"

namespace kvsim::cli {

/// The options that verbs with replays share: selection, mode, seed, allocation, device, threads
/// and verbosity.
po::options_description session_options();

/// The request of these options; the caller adds traces, policies and budgets.
SweepRequest request_from(const po::variables_map& values);

/// Budgets separated by commas, ranges with a step among them: "5%,0.2,256", "5%..50%:5%". Each
/// is taken once. Throws UsageError.
std::vector<Amount> parse_budgets(const std::string& list);

/// The specs in `list` with the allocation of --allocate; without --quiet, a hint on standard error
/// for each alias.
std::vector<Spec> specs_from(const std::string& list, const po::variables_map& values,
                             const NamedSpecs& named = every_spec());

/// "1 row", "2 rows".
std::string counted(std::size_t count, std::string_view noun);

/// The announced memory: `bytes` plus what the process takes now, as "about 20 MiB of memory on 2
/// threads".
std::string memory_note(std::size_t bytes, int threads);

/// Runs the plan: announces it, shows progress, and ends cleanly on Ctrl-C. `finished` is called as
/// by kvsim::run_sweep(). Throws what that throws; Interrupted says how many replays are finished.
void run_plan(const SweepPlan& plan, const Backend& backend, const po::variables_map& values,
              const UnitFinished& finished);

}  // namespace kvsim::cli
