#include "sim/results/closed_loop_table.h"

namespace kvsim {
namespace {

/// The table of parts of rows of `closed_loop`: their key, columns of its own, their policy_code.
TableSchema part_of_row(TableSchema part) {
  std::vector<ColumnSchema> columns = closed_loop_schema().columns;
  std::erase_if(columns, [](const ColumnSchema& column) { return !column.is_key; });
  for (ColumnSchema& column : columns) column.meaning = "as in the table closed_loop";
  part.columns.insert(part.columns.begin(), columns.begin(), columns.end());
  part.columns.push_back(
      result_column("policy_code", "a digest of the policy's code and the engine's version"));
  return part;
}

}  // namespace

TableSchema closed_loop_schema() {
  using enum Preferred;
  using namespace ranges;
  const std::string answers =
      "; a token is right if it is the most likely next one where all tokens before it are those "
      "of the text; NULL where the text has no answers";
  return {
      "closed_loop",
      "one policy at one budget on one text, inside the model that reads it: every query head sees "
      "what its cache holds, and later layers and steps follow from that",
      "perplexity and accuracy as H2O, Scissorhands and SubGen report them; python/closed_loop.md",
      {text_column("model_id", "SHA-256 over the names, types, shapes and numbers of the weights")
           .key(),
       result_column("sequence", "the text"),
       result_column("policy", "canonical spec: every parameter with its value"),
       result_column("budget", "most tokens that one KV head may keep, in tokens"),
       result_column("mode",
                     "stream: every step is measured; prefill: only the steps after the prompt; "
                     "suffixes as in the table replay"),
       text_column("loop",
                   "imposed: the kept sets of the open-loop replay, in one masked forward pass; "
                   "adaptive: the policy sees the attention of the evicting model itself")
           .key(),
       result_column("seed", "of the policy's random choices"),
       text_column("trace_id",
                   "the trace of the same text, whose open-loop replays stand in the table replay; "
                   "NULL without one"),
       text_column("text_id", "SHA-256 of the token ids, int32"),
       text_column("model", "the name of the model, as the user gave it"),
       result_column("budget_request",
                     "the budget as it was asked for: tokens, a share, or bytes per KV head"),
       result_column("label", "the name that the user gave the policy; NULL without one"),
       result_column("steps", "measured steps: all tokens, or those after the prompt"),
       real_column("nll_full",
                   "minus the log probability of the next token under the full cache, in nats per "
                   "token; mean over measured steps with a next token; NULL if there is none")
           .in(kNotNegative, neither, "nats per token"),
       real_column("nll", "the same under the evicting cache")
           .in(kNotNegative, lower, "nats per token"),
       real_column("delta_nll", "nll - nll_full; above 0: eviction makes the text less likely")
           .in(kNumber, lower, "nats per token"),
       real_column("kl_mean",
                   "divergence of the evicting model's prediction from the full model's, "
                   "KL(full || evicting), in nats per token; mean over measured steps")
           .in(kNotNegative, lower, "nats per token"),
       real_column("top1_agreement",
                   "share of measured steps at which both predict the same token, 0..1")
           .in(kShare, higher),
       integer_column("answers",
                      "spans labelled answer of which a measured step predicts at least one token")
           .in(kCount),
       integer_column("answers_right_full",
                      "answers of which the full model predicts every token" + answers)
           .in(kCount),
       integer_column("answers_right",
                      "answers of which the evicting model predicts every token" + answers)
           .in(kCount, higher),
       real_column(
           "kept_overlap",
           "|kept and kept'| / |kept or kept'| of the tokens kept here and in the open-loop "
           "replay, 0..1; mean over measured steps and units; NULL for estimators and "
           "without a replay")
           .in(kShare),
       result_column("peak_tokens", "most tokens that any KV head held after a step"),
       result_column(
           "cache_bytes",
           "keys and values of the most tokens held, in bytes, summed over layers and KV heads; "
           "numbers as the trace of the call has them, without one as the model does"),
       integer_column("prompt_length", "tokens that attended in full; 0 in stream mode")
           .in(kCount, neither, "tokens"),
       text_column("spans_id", "SHA-256 of the text's spans; NULL without any"),
       result_column("device", "that the model ran on"),
       result_column("kvsim_version", "the release and source revision that wrote the row"),
       result_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

TableSchema closed_loop_kind_schema() {
  using enum Preferred;
  using namespace ranges;
  const char* unit = "nats per token";
  return part_of_row(
      {"closed_loop_kind",
       "a row of the table closed_loop on the tokens of one kind; step t predicts token t + 1, and "
       "steps without a next token are of no kind",
       "python/closed_loop.md",
       {text_column("kind",
                    "the label of the spans that hold the predicted token, `text` where none does; "
                    "a token in spans of several labels counts in each")
            .key(),
        integer_column("tokens", "predicted tokens of the kind").in(kFromOne, neither, "tokens"),
        real_column("nll_full",
                    "minus the log probability of the token under the full cache, in nats per "
                    "token; here and below the mean over the tokens of the kind")
            .in(kNotNegative, neither, unit),
        real_column("nll", "the same under the evicting cache").in(kNotNegative, lower, unit),
        real_column("delta_nll", "nll - nll_full").in(kNumber, lower, unit),
        real_column("kl_mean", "KL(full || evicting) of the predictions, in nats per token")
            .in(kNotNegative, lower, unit),
        real_column("top1_agreement",
                    "share of the tokens at which both predict the same token, 0..1")
            .in(kShare, higher),
        integer_column("tokens_right_full", "tokens that are the full model's most likely one")
            .in(kCount, neither, "tokens"),
        integer_column("tokens_right", "tokens that are the evicting model's most likely one")
            .in(kCount, higher, "tokens")}});
}

TableSchema closed_loop_step_schema() {
  using namespace ranges;
  return part_of_row(
      {"closed_loop_step",
       "a row of the table closed_loop, step by step: lists in JSON with an entry per measured "
       "step; kvsim.closed_loop_steps reads them",
       "python/closed_loop.md",
       {integer_column("first_step", "the step of the first entry; step t predicts token t + 1")
            .in(kCount),
        text_column("kl", "KL(full || evicting), in nats, 5 significant digits"),
        text_column("nll_full",
                    "minus the log probability of the next token under the full cache, in nats; "
                    "null where there is no next token"),
        text_column("nll", "the same under the evicting cache"),
        text_column("spans",
                    "the spans of the text in JSON, [first token, end, label], from which the "
                    "kinds of its tokens follow")}});
}

}  // namespace kvsim
