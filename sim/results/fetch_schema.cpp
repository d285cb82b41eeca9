#include "sim/results/fetch_schema.h"

#include "sim/results/result.h"

namespace kvsim {

TableSchema fetch_schema() {
  using enum Preferred;
  using namespace ranges;
  return {
      "fetch",
      "one unit whose keys and values lie in host memory, under one selector and one replacement, "
      "with so many tokens on the device; means are over measured steps",
      "sim/tiers/README.md; Belady 1966; Mattson et al. 1970, stack algorithms",
      {result_column("trace_id", "as in the table replay"),
       result_column("sequence", "the text"),
       result_column("layer", "of the model"),
       result_column("kv_head", "0-based within the layer"),
       text_column("select", "what chooses the pages to attend to: spec with all its parameters")
           .key(),
       integer_column("resident", "on the device, the page of the step included")
           .in(kFromOne, neither, "tokens")
           .key(),
       text_column("replace",
                   "what leaves the device for a fetched page; belady: MIN, the fewest misses that "
                   "there are")
           .key(),
       result_column("mode", "stream or prefill: nothing is chosen while the prompt attends"),
       result_column("seed", "as in the table replay"),
       result_column("steps", "measured steps"),
       integer_column("accesses",
                      "chosen pages, summed over steps; the page of the step is none of them")
           .in(kCount, neither, "pages")
           .filled(),
       integer_column("hits", "of these, those on the device").in(kCount, higher, "pages").filled(),
       integer_column("misses", "accesses - hits: fetched").in(kCount, lower, "pages").filled(),
       real_column("hit_rate", "hits / accesses; 1 if nothing was chosen")
           .in(kShare, higher)
           .filled(),
       real_column("fetched_bytes_mean",
                   "keys and values of the misses of a step at the trace's element size; mean")
           .in(kCount, lower, "bytes")
           .filled(),
       real_column("fetched_bytes_p95", "their 95th percentile over steps")
           .in(kCount, lower, "bytes")
           .filled(),
       integer_column("fetched_bytes_max", "the most at one step")
           .in(kCount, lower, "bytes")
           .filled(),
       integer_column("summary_bytes",
                      "what the device holds at the end of the text for the selector alone; 0: the "
                      "selector is exact, no method")
           .in(kCount, lower, "bytes")
           .filled(),
       real_column("attended_mean", "attended to by a step, its own page included")
           .in(kCount, neither, "tokens")
           .filled(),
       result_column("attention_recall",
                     "share of the full attention that falls on these, and on a learned sink; mean "
                     "over query heads, too"),
       result_column("output_error_sq",
                     "|o - o'|^2, in absolute terms, mean over query heads, too"),
       real_column("topk_overlap",
                   "share of the pages that the exact topk chooses, as many, that are chosen; mean "
                   "over the steps that choose; NULL if none does")
           .in(kShare, higher),
       real_column("step_overlap",
                   "share of the pages chosen at the step before that are chosen again; mean over "
                   "steps; NULL if none follows one that chooses")
           .in(kShare),
       result_column("trace", "the file, as it was named"),
       text_column("resident_request", "the size as it was asked for; NULL in a curve"),
       result_column("device", "that computed the attention"),
       result_column("kvsim_version", "of the program that wrote the row"),
       result_column("policy_code",
                     "a digest of the selector's code and the version of the engine's numbers")}};
}

}  // namespace kvsim
