#include "sim/results/task_answer_table.h"

namespace kvsim {

TableSchema task_answer_schema() {
  using enum Preferred;
  using namespace ranges;
  const std::string of_generated = "; NULL where nothing was generated";
  return {
      "task_answer",
      "one question asked of a running model whose cache one policy has compressed to one budget",
      "python/kvsim/tasks/README.md",
      {text_column("model_id", "SHA-256 over the names, types, shapes and numbers of the weights")
           .key(),
       result_column("sequence", "the text: a context with its turns"),
       integer_column("turn", "the question's place in the text, from 1 on").in(kFromOne).key(),
       result_column("policy", "canonical spec: every parameter with its value"),
       result_column("budget", "most tokens that one KV head may keep, in tokens"),
       result_column("mode", "prefill with the suffixes of the table replay"),
       text_column("question",
                   "unseen: the context alone was compressed, and each question is asked of that "
                   "cache; after, before: the first question was compressed with the context that "
                   "precedes or follows it; turns: as unseen, and the cache goes on through the "
                   "turns")
           .key(),
       integer_column("most_tokens",
                      "the most tokens that were to be generated; 0: none, the likelihood alone "
                      "was measured")
           .in(kCount, neither, "tokens")
           .key(),
       result_column("seed", "of the policy's random choices"),
       text_column("text_id", "SHA-256 of the token ids, int32, of context, turns and answers"),
       text_column("spans_id", "SHA-256 of the text's spans"),
       text_column("model", "the name of the model, as the user gave it"),
       result_column("budget_request",
                     "the budget as it was asked for: tokens, a share, or bytes per KV head"),
       result_column("label", "the name that the user gave the policy; NULL without one"),
       text_column("task", "the kind of the question, as the text says; NULL where it does not"),
       integer_column("length", "tokens of the context").in(kFromOne, neither, "tokens"),
       integer_column("length_request", "the length that the text was made for; NULL without one")
           .in(kFromOne, neither, "tokens"),
       real_column("depth",
                   "where in the context the needle is, 0..1; NULL where there is not just one")
           .in(kShare),
       integer_column("in_view",
                      "1: the question was compressed with the context; 0: it came afterwards")
           .in(kCount),
       integer_column("answers", "values that the answer consists of, and steps that lead to it")
           .in(kFromOne),
       integer_column("answers_right",
                      "values of which each token is the most likely one, where all tokens before "
                      "it are those of the answer")
           .in(kCount, higher),
       real_column("nll", "minus the log probability of these values, in nats per token")
           .in(kNotNegative, lower, "nats per token"),
       text_column("stop", "the texts that ended it, a list in JSON" + of_generated),
       text_column("generated", "the text that the model wrote, greedily" + of_generated),
       integer_column("generated_tokens", "its tokens" + of_generated)
           .in(kCount, neither, "tokens"),
       real_column("exact", "1: it is the answer, but for case, punctuation and articles; else 0" +
                                of_generated)
           .in(kShare, higher),
       real_column(
           "contains",
           "share of the values, without steps, that it contains, but for case" + of_generated)
           .in(kShare, higher),
       real_column("f1",
                   "harmonic mean of its precision and recall of the answer's words" + of_generated)
           .in(kShare, higher),
       result_column("peak_tokens", "most tokens that any KV head held after a step"),
       result_column("cache_bytes",
                     "keys and values of the most tokens held, in bytes, summed over layers and "
                     "KV heads"),
       result_column("device", "that the model ran on"),
       result_column("kvsim_version", "the release and source revision that wrote the row"),
       result_column("policy_code", "a digest of the policy's code and the engine's version")}};
}

}  // namespace kvsim
