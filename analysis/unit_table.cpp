#include "analysis/unit_table.h"

namespace kvsim {

TableSchema unit_schema() {
  return {
      "unit",
      "the shape of a unit that was analysed: a KV head with its query heads",
      "the trace",
      {text_column("trace_id", "the trace: its trace_id, or the SHA-256 of the file").key(),
       text_column("sequence", "the recorded text").key(), integer_column("layer", "0-based").key(),
       integer_column("kv_head", "0-based within the layer").key(),
       integer_column("num_tokens", "n; attention is n x n, lower triangle"),
       integer_column("prompt_length", "tokens of the prompt; 0: none"),
       integer_column("query_heads", "that read the KV head"),
       integer_column("head_dim", "numbers in a query and a key"),
       integer_column("value_dim", "numbers in a value"),
       real_column("scale", "logit = scale * <query, key>"),
       real_column("logit_softcap", "logit becomes cap * tanh(logit / cap); NULL: none"),
       integer_column("sliding_window",
                      "token j is visible at step t while t - j < window; NULL: none"),
       integer_column("attention_chunk",
                      "and while floor(j / chunk) = floor(t / chunk); NULL: none"),
       integer_column("has_sink_logit",
                      "1 if a learned sink takes attention and gives no value, else 0"),
       integer_column("most_selected",
                      "the most tokens that the model itself selects at a step, which sees no "
                      "others; NULL: it sees all")}};
}

std::vector<Value> unit_row(const Trace& trace, const Unit& unit) {
  std::optional<double> softcap;
  if (unit.logit_softcap) softcap = *unit.logit_softcap;
  std::optional<std::int64_t> window;
  if (unit.sliding_window) window = *unit.sliding_window;
  std::optional<std::int64_t> chunk;
  if (unit.attention_chunk) chunk = *unit.attention_chunk;
  std::optional<std::int64_t> most_selected;
  if (unit.selected) most_selected = unit.selected->most();
  return {trace.id(),
          unit.name.sequence,
          std::int64_t{unit.name.layer},
          std::int64_t{unit.name.kv_head},
          std::int64_t{unit.num_tokens()},
          std::int64_t{unit.prompt_length},
          std::int64_t{unit.group_size()},
          std::int64_t{unit.key.cols()},
          std::int64_t{unit.value.cols()},
          static_cast<double>(unit.scale),
          value_of(softcap),
          value_of(window),
          value_of(chunk),
          std::int64_t{!unit.sink_logit.empty()},
          value_of(most_selected)};
}

}  // namespace kvsim
