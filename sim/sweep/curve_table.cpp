#include "sim/sweep/curve_table.h"

#include <algorithm>

#include "sim/results/version.h"

namespace kvsim {
namespace {

constexpr std::size_t kColumns = 28;

}  // namespace

TableSchema curve_schema() {
  const std::string where_asked = "; NULL where --output-error does not ask for it";
  return {
      "curve",
      "one unit under one policy at one budget, all budgets from one pass; the same as the row of "
      "`replay` at that budget, but for rounding",
      "sim/curve/README.md; Mattson et al. 1970, stack algorithms",
      {text_column("trace_id", "the trace: its trace_id, or the SHA-256 of the file").key(),
       text_column("sequence", "the recorded text").key(),
       integer_column("layer", "0-based").key(),
       integer_column("kv_head", "0-based within the layer").key(),
       text_column("policy", "spec with all its parameters").key(),
       integer_column("budget", "most tokens kept, 1 .. n").key(),
       text_column("mode", "stream or prefill").key(),
       integer_column("seed", "of random choices").key(),
       text_column("trace", "the file, as it was named"),
       integer_column("steps", "measured steps"),
       real_column(
           "attention_recall",
           "share of the full attention that fell on tokens in the cache, 0 .. 1; mean over "
           "measured steps and query heads"),
       real_column("attention_loss", "1 - attention_recall"),
       real_column("miss_rate", "token_misses / token_accesses; 0 if nothing was accessed"),
       integer_column("token_accesses", "pivotal tokens, a[t,j] > 1/(t+1), summed over steps"),
       integer_column("token_misses", "of these, those not in the cache"),
       integer_column("evictions", "tokens that left"),
       integer_column("peak_tokens", "most tokens held after a measured step"),
       integer_column("cache_bytes", "K and V of peak_tokens at the trace's element size"),
       real_column("output_error_mean",
                   "|o - o'| / |o|, o' being the evicting cache's output; mean "
                   "over measured steps and query heads" +
                       where_asked),
       real_column("output_error_p50", "their median" + where_asked),
       real_column("output_error_p95", "their 95th percentile" + where_asked),
       real_column("output_error_max", "the largest of them" + where_asked),
       real_column(
           "bound_mean",
           "Scissorhands Lemma B.4: 2 max|v| loss / |o|, an upper bound of that error; mean" +
               where_asked),
       integer_column("bound_violations", "errors above their bound; 0 unless wrong" + where_asked),
       text_column("device", "that computed the attention"),
       text_column("kvsim_version", "of the program that wrote the row"),
       text_column("label", "the name that the user gave the policy; NULL without one"),
       text_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

std::vector<std::vector<Value>> curve_rows(const Curve& curve, const CurveLabels& labels) {
  const auto num_tokens = static_cast<std::int64_t>(curve.attention_loss.size());
  std::vector<std::vector<Value>> rows;
  rows.reserve(curve.attention_loss.size());
  for (std::int64_t budget = 1; budget <= num_tokens; ++budget) {
    const double loss = curve.attention_loss[budget - 1];
    const std::int64_t misses = curve.token_misses[budget - 1];
    const auto accesses = static_cast<double>(curve.token_accesses);
    std::vector<Value>& row = rows.emplace_back();
    row.reserve(kColumns);
    row.insert(
        row.end(),
        {Value(labels.trace_id), labels.unit.sequence, std::int64_t{labels.unit.layer},
         std::int64_t{labels.unit.kv_head}, labels.policy, budget, labels.mode, labels.seed,
         labels.trace, curve.steps, 1 - loss, loss,
         accesses == 0 ? 0.0 : static_cast<double>(misses) / accesses, curve.token_accesses, misses,
         // Once full, the cache stays at its budget: each further token evicts one.
         num_tokens - budget, budget, budget * static_cast<std::int64_t>(labels.bytes_per_token)});
    const auto found = curve.output_error.find(static_cast<int>(budget));
    if (found == curve.output_error.end()) {
      row.insert(row.end(), 6, std::monostate());
    } else {
      const OutputErrors& errors = found->second;
      row.insert(row.end(), {errors.mean, errors.p50, errors.p95, errors.max, errors.bound_mean,
                             errors.bound_violations});
    }
    row.insert(row.end(), {labels.device, version()});
    row.push_back(labels.label.empty() ? Value(std::monostate()) : Value(labels.label));
    row.emplace_back(labels.policy_code);
  }
  return rows;
}

}  // namespace kvsim
