#include "sim/sweep/request/request_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/amount_list.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/request/lists.h"

namespace kvsim {
namespace {

constexpr int kMostThreads = 1024;

}  // namespace

RequestOptions::RequestOptions() : threads(default_threads()) {}

SweepRequest request_of(const RequestOptions& options) {
  SweepRequest request;
  request.selection = selection_of(options);
  request.protocol = protocol_of(options.protocol);
  request.seed = checked_seed(options.seed);
  request.threads = threads_of(options);
  request.shard = parse_shard(options.shard);
  return request;
}

Selection selection_of(const RequestOptions& options) {
  Selection selection{.sequences = options.sequences};
  if (!options.layers.empty()) selection.layers = parse_indices(options.layers, "--layers");
  if (!options.heads.empty()) selection.kv_heads = parse_indices(options.heads, "--heads");
  return selection;
}

AllocationSpec allocation_of(const RequestOptions& options) {
  const std::string& written = options.allocate;
  check_choice("--allocate", written.substr(0, written.find(':')), allocation_names());
  return AllocationSpec(written);
}

int threads_of(const RequestOptions& options) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    throw UsageError(
        fmt::format("--threads: expected 1..{}, found {}", kMostThreads, options.threads));
  }
  return options.threads;
}

std::int64_t checked_seed(std::int64_t seed) {
  if (seed >= 0) return seed;
  throw UsageError(fmt::format("--seed: expected 0 or more, found {}", seed));
}

std::vector<Amount> parse_budgets(std::span<const std::string> lists) {
  std::vector<Amount> budgets;
  const auto add = [&](const Amount& amount) {
    if (amount.value() == 0) throw UsageError("budget '0' keeps nothing; 1 token is the least");
    if (std::find(budgets.begin(), budgets.end(), amount) != budgets.end()) return;
    budgets.push_back(amount);
  };
  for (const std::string& list : lists) {
    for (const std::string& part : parse_list(list, "budget")) {
      for (const Amount& amount : parse_budget_amounts(part, "budget")) add(amount);
    }
  }
  return budgets;
}

std::vector<Amount> parse_budgets(const std::string& list) { return parse_budgets({&list, 1}); }

}  // namespace kvsim
