#include "sim/results/curve_schema.h"

#include "sim/results/result.h"

namespace kvsim {

TableSchema curve_schema() {
  const std::string where_asked = "; NULL where --output-error does not ask for it";
  return {
      "curve",
      "one unit under one policy at one budget, all budgets from one pass; the same as the row of "
      "`replay` at that budget, but for rounding",
      "sim/curve/README.md; Mattson et al. 1970, stack algorithms",
      {result_column("trace_id", "the trace: its trace_id, or the SHA-256 of the file"),
       result_column("sequence", "the recorded text"),
       result_column("layer", "0-based"),
       result_column("kv_head", "0-based within the layer"),
       result_column("policy", "spec with all its parameters"),
       result_column("budget", "most tokens kept, 1 .. n; of pages of P tokens 2 P, 3 P, .."),
       result_column("mode", "stream or prefill"),
       result_column("seed", "of random choices"),
       result_column("trace", "the file, as it was named"),
       result_column("steps", "measured steps"),
       result_column(
           "attention_recall",
           "share of the full attention that fell on tokens in the cache, 0 .. 1; mean over "
           "measured steps and query heads"),
       result_column("attention_loss", "1 - attention_recall"),
       result_column("miss_rate", "token_misses / token_accesses; 0 if nothing was accessed"),
       result_column("token_accesses", "pivotal tokens, a[t,j] > 1/(t+1), summed over steps"),
       result_column("token_misses", "of these, those not in the cache"),
       result_column("evictions", "tokens that left"),
       result_column("peak_tokens", "most tokens held after a measured step"),
       result_column("cache_bytes", "K and V of peak_tokens at the trace's element size"),
       result_column("output_error_mean",
                     "|o - o'| / |o|, o' being the evicting cache's output; mean "
                     "over measured steps and query heads" +
                         where_asked),
       result_column("output_error_p50", "their median" + where_asked),
       result_column("output_error_p95", "their 95th percentile" + where_asked),
       result_column("output_error_max", "the largest of them" + where_asked),
       result_column(
           "bound_mean",
           "Scissorhands Lemma B.4: 2 max|v| loss / |o|, an upper bound of that error; mean" +
               where_asked),
       result_column("bound_violations", "errors above their bound; 0 unless wrong" + where_asked),
       result_column("device", "that computed the attention"),
       result_column("kvsim_version", "of the program that wrote the row"),
       result_column("label", "the name that the user gave the policy; NULL without one"),
       result_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

}  // namespace kvsim
