#pragma once

#include "sim/cli/options.h"
#include "sim/core/sweep.h"

namespace kvsim::cli {

/// The options of a run: what to replay, how, and where.
po::options_description session_options();

/// The request that those options make; the caller names traces, policies and budgets.
SweepRequest request_from(const po::variables_map& values);

/// Budgets separated by commas: "5%,0.2,256". Throws UsageError.
std::vector<Amount> parse_budgets(const std::string& list);

/// What is said beforehand of a run that takes so many bytes: "about 20 MiB of memory on 2
/// threads".
std::string memory_note(std::size_t bytes, int threads);

/// Runs the plan: says what is coming, shows progress, ends cleanly on Ctrl-C.
/// `finished` is called as by kvsim::run_sweep. Throws Interrupted, saying how far it came.
void run_plan(const SweepPlan& plan, const Backend& backend, const po::variables_map& values,
              const UnitFinished& finished);

}  // namespace kvsim::cli
