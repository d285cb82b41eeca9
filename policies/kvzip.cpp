// KVzip (Kim, Kim, Kwon, Lee, Yun and Song, "KVzip: Query-Agnostic KV Cache Compression with
// Context Reconstruction", 2025, arXiv 2505.23416): the model reads a context a second time, after
// a request to repeat it. A token counts by the largest attention that it gets meanwhile
// (section 3.2), for whatever question comes later. The scores are computed by the model and come
// from a file.

#include <algorithm>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Kvzip final : public Policy {
 public:
  Kvzip(const Params& params, const Context& context)
      : sinks_(params.integer("sinks")),
        prompt_only_(params.choice("reads") == "prompt"),
        scores_(context.file_scores.begin(), context.file_scores.end()) {}

  Rules rules() const override { return {.protect_first = sinks_, .prompt_only = prompt_only_}; }

  void update(const Step& step, std::span<double> scores) override {
    const auto token = static_cast<std::size_t>(step.index);
    if (token < scores_.size()) scores.back() = double{scores_[token]};
  }

 private:
  int sinks_;
  bool prompt_only_;
  std::vector<float> scores_;
};

}  // namespace

PolicyInfo kvzip_policy() {
  return {
      .name = "kvzip",
      .keeps = "the tokens that get the most attention while the model repeats the text",
      .source = "KVzip (Kim et al. 2025, arXiv 2505.23416) section 3; KVzipPress of kvpress",
      .sees = "a file of scores, as `kvsim.second_reading` writes it",
      .differences =
          "reads=prompt needs --mode prefill --eviction-interval never; reads=text knows the text "
          "to come, as an oracle does. The authors' program divides one budget among all heads by "
          "score: write that division with --budgets and follow it with @file",
      .params = {Param::text("file", "scores (HDF5) of each unit and token"),
                 Param::text("sha256", "what the file has to hold; filled in when it is read"),
                 Param::choice("reads", {"prompt", "text"}, "what the model read a second time"),
                 Param::integer("sinks", 4, 0, 1'000'000, "first tokens, which stay")},
      .reads_scores = true,
      .make = make_policy<Kvzip>};
}

}  // namespace kvsim
