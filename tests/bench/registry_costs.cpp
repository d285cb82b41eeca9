#include "tests/bench/registry_costs.h"

#include <cmath>
#include <memory>
#include <utility>

#include "analysis/analyse_unit.h"
#include "analysis/layer_stream.h"
#include "policies/registry/registry.h"
#include "tests/bench/structured_heads.h"
#include "traces/synth/synth_downstream.h"
#include "traces/synth/synth_head.h"

namespace kvsim::bench {
namespace {

constexpr const char* kReplaysForAnalyses = "h2o;tova;subgen";

/// What follows a layer of this one head.
SynthOptions layer_of(const Unit& head) {
  SynthOptions options;
  options.tokens = head.num_tokens();
  options.query_heads = 1;
  options.kv_heads = 1;
  options.head_dim = static_cast<int>(head.key.cols());
  options.hidden = options.head_dim;
  options.mlp_width = 4 * options.hidden;
  options.gradient_samples = 1;
  return options;
}

Unit with_downstream(Unit head) {
  const SynthOptions options = layer_of(head);
  const SynthDownstream downstream(options, options.head_dim, 0);
  head.output_projection = {downstream.projection()};
  head.output_score_grad = downstream.gradients();
  return head;
}

/// The head with what a policy of the registry may need in addition, and that layer.
struct Subjects {
  explicit Subjects(const Unit& head)
      : plain(head),
        complete(with_downstream(head)),
        options(layer_of(head)),
        downstream(options, options.head_dim, 0),
        next(options, options.head_dim, 1),
        stream(downstream.rows(Dataset::residual), head.value * downstream.projection(),
               next.rows(Dataset::residual)) {}

  const Unit& plain;
  Unit complete;
  SynthOptions options;
  SynthDownstream downstream;
  SynthDownstream next;
  LayerStream stream;
};

CostEntry replay_entry(const PolicyInfo& policy, int budget,
                       const std::shared_ptr<Subjects>& subjects, const Backend& backend) {
  const Spec spec(policy);
  CostEntry entry{spec.is_oracle() ? "oracle" : "policy", policy.name, nullptr};
  if (policy.reads_file() && !spec.is_oracle()) {
    entry.why_not = "reads a file";
    return entry;
  }
  ReplayOptions options;
  if (spec.rules({.budget = budget}).prompt_only) {
    options.protocol.mode = Mode::prefill;
    options.protocol.eviction_interval = kNeverEvict;
  }
  const bool needs_more = spec.needs() != TraceNeeds{};
  entry.run = [=, &backend] {
    replay(needs_more ? subjects->complete : subjects->plain, {{spec, budget}}, options, backend);
  };
  return entry;
}

std::vector<PolicyRun> runs_on(const Unit& unit, int budget, const Backend& backend) {
  ReplayOptions options;
  options.trajectories = true;
  options.selections = true;
  std::vector<Configuration> configurations;
  for (const Spec& policy : parse_specs(kReplaysForAnalyses)) {
    configurations.push_back({policy, budget});
  }
  std::vector<Outcome> outcomes = replay(unit, configurations, options, backend);
  std::vector<PolicyRun> runs;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    runs.push_back({configurations[i].policy, budget,
                    static_cast<int>(outcomes[i].result.peak_tokens),
                    std::move(outcomes[i].trajectory), std::move(outcomes[i].amounts)});
  }
  return runs;
}

CostEntry analysis_entry(const AnalysisInfo& info, const std::shared_ptr<Subjects>& subjects,
                         const std::shared_ptr<std::vector<PolicyRun>>& runs,
                         const Backend& backend) {
  const bool needs_more = info.needs_stream || info.needs_dataset(Dataset::output_score_grad);
  const AnalysisSpec spec{&info, Params(info.params)};
  return {"analysis", info.name, [=, &backend] {
            AnalysisOptions options;
            options.stream = &subjects->stream;
            options.read_rows = [&](Dataset dataset, const SeeRows& see) {
              see(subjects->downstream.rows(dataset));
            };
            const Unit& unit = needs_more ? subjects->complete : subjects->plain;
            analyse_unit(unit, {&spec, 1}, *runs, options, backend);
          }};
}

}  // namespace

Unit head_of_costs(int tokens, int head_dim, std::uint64_t seed) {
  Unit head = structured_heads({tokens, head_dim, 1}, seed).front();
  SynthOptions options;
  options.tokens = tokens;
  options.seed = seed;
  head.token_ids = synth_text(options);
  head.prompt_length = tokens / 2;
  const int answer = tokens - tokens / 8;
  head.spans = {{tokens / 8, tokens / 8 + 4, "needle"}, {answer, answer + 4, "answer"}};
  Rope rope{.inverse_frequency = {}, .style = "half"};
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    rope.inverse_frequency.push_back(std::pow(1e4, -2.0 * pair / head_dim));
  }
  head.rope = rope;
  return head;
}

std::vector<CostEntry> registry_costs(const Unit& head, int budget, const Backend& backend) {
  const auto subjects = std::make_shared<Subjects>(head);
  const auto runs =
      std::make_shared<std::vector<PolicyRun>>(runs_on(subjects->complete, budget, backend));
  std::vector<CostEntry> entries;
  for (const PolicyInfo& policy : policies()) {
    entries.push_back(replay_entry(policy, budget, subjects, backend));
  }
  for (const AnalysisInfo* info : analyses()) {
    entries.push_back(analysis_entry(*info, subjects, runs, backend));
  }
  return entries;
}

}  // namespace kvsim::bench
