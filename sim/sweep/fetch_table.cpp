#include "sim/sweep/fetch_table.h"

#include <fmt/format.h>

#include "sim/results/version.h"
#include "traces/sha256.h"

namespace kvsim {

std::string selector_code(const SelectorSpec& selector) {
  constexpr std::size_t kDigits = 16;
  const std::string& own = selector.info().code;
  return sha256(fmt::format("{} fetch{}{}", kResultsVersion, own.empty() ? "" : " ", own))
      .substr(0, kDigits);
}

std::vector<std::vector<Value>> fetch_rows(const Fetches& fetches, const FetchLabels& labels) {
  const SelectionQuality& quality = fetches.quality;
  const auto page_bytes = static_cast<double>(fetches.page_bytes);
  std::vector<std::vector<Value>> rows;
  rows.reserve(fetches.caches.size());
  for (const FetchedAt& cache : fetches.caches) {
    const Misses& misses = cache.misses;
    const std::string& request = cache.resident.request;
    rows.push_back({labels.trace_id,
                    labels.unit.sequence,
                    std::int64_t{labels.unit.layer},
                    std::int64_t{labels.unit.kv_head},
                    labels.select,
                    std::int64_t{cache.resident.tokens},
                    name_of(cache.replace),
                    labels.mode,
                    labels.seed,
                    quality.steps,
                    quality.accesses,
                    quality.accesses - misses.sum,
                    misses.sum,
                    hit_rate(quality, misses),
                    misses.mean * page_bytes,
                    misses.p95 * page_bytes,
                    misses.max * fetches.page_bytes,
                    quality.summary_bytes,
                    quality.attended_mean,
                    quality.attention_recall,
                    quality.output_error_sq,
                    value_of(quality.topk_overlap),
                    value_of(quality.step_overlap),
                    labels.trace,
                    request.empty() ? Value(std::monostate()) : Value(request),
                    labels.device,
                    version(),
                    labels.policy_code});
  }
  return rows;
}

std::vector<Value> selected_layer_row(const ProjectedError& error, const SelectorSpec& selector,
                                      const FetchLabels& labels, std::int64_t steps, int num_tokens,
                                      int num_layers) {
  const std::optional<int> attended = selector.attended();
  Result row;
  row.trace_id = labels.trace_id;
  row.sequence = labels.unit.sequence;
  row.layer = labels.unit.layer;
  row.policy = labels.select;
  row.budget = attended.value_or(num_tokens);
  row.budget_request = attended ? fmt::format("{}", *attended) : "1.0";
  row.mode = labels.mode;
  row.seed = labels.seed;
  row.steps = steps;
  row.trace = labels.trace;
  row.device = labels.device;
  row.kvsim_version = version();
  row.policy_code = labels.policy_code;
  return layer_error_values({.row = row,
                             .error = {.projected_error = error.mean,
                                       .projected_error_relative = error.relative,
                                       .predicted_kl = {},
                                       .num_layers = num_layers}});
}

}  // namespace kvsim
