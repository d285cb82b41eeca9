#pragma once

#include <iosfwd>

#include "sim/cli/options.h"
#include "sim/sweep/request/policy_lists.h"
#include "sim/sweep/run_sweep.h"

namespace kvsim::cli {

/// The options that verbs with replays share: selection, mode, seed, allocation, device, threads
/// and verbosity.
po::options_description session_options();

/// Prints these notes on standard error, unless --quiet. Empty ones are none.
void print_notes(const std::vector<std::string>& notes, const po::variables_map& values);

/// The policies of --policies (policies_for()); prints their notes. Throws UsageError.
std::vector<Spec> policies_from(const Verb& verb, const po::variables_map& values,
                                SweepRequest& request);

/// The specs in `lists` with the allocation of --allocate; prints their notes.
std::vector<Spec> specs_from(const std::vector<std::string>& lists, const po::variables_map& values,
                             const NamedSpecs& named = every_spec());

/// "1 row", "2 rows".
std::string counted(std::size_t count, std::string_view noun);

/// The announced memory: `bytes` plus own_memory(), as "about 20 MiB of memory on 2 threads".
std::string memory_note(std::size_t bytes, int threads);

/// What a command prints in place of its table when it was one of several shards, whose units are
/// no sample of all: where its rows are.
void write_shard(std::ostream& out, const SweepPlan& plan, const std::string& file);

/// Runs the plan: announces it, shows progress, and ends cleanly on Ctrl-C. `finished` is called as
/// by kvsim::run_sweep(). Throws what that throws; Interrupted says how many replays are finished.
void run_plan(const SweepPlan& plan, const Backend& backend, const po::variables_map& values,
              const UnitFinished& finished);

}  // namespace kvsim::cli
