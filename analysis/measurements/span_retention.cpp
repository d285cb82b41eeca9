// Is what a text asks for still there when it is asked for (SubGen Table 1, without the model)?

#include "analysis/asked_facts.h"
#include "analysis/policy_runs.h"

namespace kvsim {
namespace {

class SpanRetention final : public Analysis {
 public:
  SpanRetention(const Params&, const Subject& subject)
      : subject_(subject), facts_(asked_facts(subject.unit, subject.first_measured())) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (const PolicyRun& run : subject_.runs) {
      for (const auto& [label, tokens] :
           {std::pair("needle", &AskedFact::needle), std::pair("answer", &AskedFact::answer)}) {
        const std::vector<Value> values =
            with_run_values(subject_, run, retention(run, label, tokens));
        for (int head = 0; head < subject_.unit.group_size(); ++head)
          rows.push_back({head, values});
      }
    }
    return rows;
  }

 private:
  std::vector<Value> retention(const PolicyRun& run, const std::string& label,
                               std::vector<int> AskedFact::*tokens_of) const {
    std::int64_t unpaired = 0;
    std::int64_t complete = 0;
    std::int64_t tokens = 0;
    std::int64_t held = 0;
    for (const AskedFact& fact : facts_) {
      unpaired += fact.needle.empty();
      bool is_complete = !fact.needle.empty();
      for (const int step : fact.steps) {
        for (const int token : fact.*tokens_of) {
          const bool is_held =
              attends_to(run, token, step) && is_visible(subject_.unit, step, token);
          ++tokens;
          held += is_held;
          is_complete = is_complete && is_held;
        }
      }
      complete += is_complete;
    }
    const std::int64_t answers = std::ssize(facts_);
    return {label,
            answers,
            unpaired,
            tokens,
            held,
            value_of(share_of(held, tokens)),
            value_of(share_of(complete, answers - unpaired))};
  }

  static std::optional<double> share_of(std::int64_t part, std::int64_t whole) {
    if (whole == 0) return std::nullopt;
    return static_cast<double>(part) / static_cast<double>(whole);
  }

  const Subject& subject_;
  std::vector<AskedFact> facts_;
};

}  // namespace

AnalysisInfo span_retention_analysis() {
  return {
      .name = "span-retention",
      .shows = "per query head, replay and label: how much of what the text asks for is still held",
      .source = "SubGen section 3.2, Table 1: what its retrieval needs of the cache",
      .notes =
          "an answer is asked for at the measured steps that predict its tokens; its needle is "
          "the one before these steps that contains the answer's tokens, of several the one with "
          "most of the question's tokens, then the latest; held is what a step attends to: of a "
          "policy that selects, what it selects; of an estimator, tokens whose value it has; "
          "tokens beyond a sliding window are not held; whether the model then answers right is "
          "for python -m kvsim.evaluate to say; the query heads of a group have the same rows",
      .columns = with_run_columns(
          {text_column("label", "needle: all tokens of it; answer: those that tell the answer")
               .key(),
           integer_column("answers", "answers that measured steps predict"),
           integer_column("unpaired",
                          "of these, those whose tokens no needle has; they count no "
                          "further"),
           integer_column("tokens", "tokens of the label, once for each step that asks for them"),
           integer_column("held", "of these, those that the step attends to"),
           real_column("share", "held / tokens; 0..1, NULL without a token"),
           real_column("complete",
                       "share of the paired answers that have all tokens of the label held at "
                       "every step that asks for them; 0..1, NULL without a paired answer")}),
      .summary = {"tokens", "share", "complete"},
      .summary_by = {"policy", "budget", "label"},
      .reads_attention = false,
      .needs = {Dataset::token_ids},
      .needs_spans = true,
      .reads_selections = true,
      .accepts = [](const Spec&) { return true; },
      .make = make_analysis<SpanRetention>};
}

}  // namespace kvsim
