#include "sim/results/curve_schema.h"

namespace kvsim {

TableSchema curve_schema() {
  using namespace ranges;
  const std::string where_asked = "; NULL where --output-error does not ask for it";
  return {
      "curve",
      "one unit under one policy at one budget, all budgets from one pass; the same as the row of "
      "`replay` at that budget, but for rounding",
      "sim/curve/README.md; Mattson et al. 1970, stack algorithms",
      {text_column("trace_id", "the trace: its trace_id, or the SHA-256 of the file").key(),
       text_column("sequence", "the recorded text").key(),
       integer_column("layer", "0-based").in(kCount).key(),
       integer_column("kv_head", "0-based within the layer").in(kCount).key(),
       text_column("policy", "spec with all its parameters").key(),
       integer_column("budget", "most tokens kept, 1 .. n").in(kFromOne).key(),
       text_column("mode", "stream or prefill").key(),
       integer_column("seed", "of random choices").key(),
       text_column("trace", "the file, as it was named"),
       integer_column("steps", "measured steps").in(kCount),
       real_column(
           "attention_recall",
           "share of the full attention that fell on tokens in the cache, 0 .. 1; mean over "
           "measured steps and query heads")
           .in(kShare)
           .better(Preferred::higher)
           .open_loop(),
       real_column("attention_loss", "1 - attention_recall")
           .in(kShare)
           .better(Preferred::lower)
           .open_loop(),
       real_column("miss_rate", "token_misses / token_accesses; 0 if nothing was accessed")
           .in(kShare)
           .better(Preferred::lower)
           .open_loop(),
       integer_column("token_accesses", "pivotal tokens, a[t,j] > 1/(t+1), summed over steps")
           .in(kCount),
       integer_column("token_misses", "of these, those not in the cache")
           .in(kCount)
           .better(Preferred::lower),
       integer_column("evictions", "tokens that left").in(kCount),
       integer_column("peak_tokens", "most tokens held after a measured step")
           .in(kCount)
           .better(Preferred::lower),
       integer_column("cache_bytes", "K and V of peak_tokens at the trace's element size")
           .in(kCount)
           .better(Preferred::lower),
       real_column("output_error_mean",
                   "|o - o'| / |o|, o' being the evicting cache's output; mean "
                   "over measured steps and query heads" +
                       where_asked)
           .in(kNotNegative)
           .better(Preferred::lower)
           .open_loop(),
       real_column("output_error_p50", "their median" + where_asked)
           .in(kNotNegative)
           .better(Preferred::lower)
           .open_loop(),
       real_column("output_error_p95", "their 95th percentile" + where_asked)
           .in(kNotNegative)
           .better(Preferred::lower)
           .open_loop(),
       real_column("output_error_max", "the largest of them" + where_asked)
           .in(kNotNegative)
           .better(Preferred::lower)
           .open_loop(),
       real_column(
           "bound_mean",
           "Scissorhands Lemma B.4: 2 max|v| loss / |o|, an upper bound of that error; mean" +
               where_asked)
           .in(kNotNegative)
           .better(Preferred::lower),
       integer_column("bound_violations", "errors above their bound; 0 unless wrong" + where_asked)
           .in(kCount)
           .better(Preferred::lower),
       text_column("device", "that computed the attention"),
       text_column("kvsim_version", "of the program that wrote the row"),
       text_column("label", "the name that the user gave the policy; NULL without one"),
       text_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

}  // namespace kvsim
