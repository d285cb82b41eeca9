#include "sim/sweep/policy_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/errors.h"
#include "sim/results/schedule_file.h"
#include "sim/results/score_file.h"
#include "sim/results/scorer_file.h"
#include "sim/sweep/split_tables.h"
#include "sim/sweep/sweep_plan.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

const char* kind_of_file(const PolicyInfo& policy) {
  return policy.reads_scorer ? "scorers" : policy.reads_scores ? "scores" : "schedule";
}

}  // namespace

Spec with_policy_file_hash(const Spec& policy) {
  std::shared_ptr<const Scorer> scorer;
  if (policy.policy().reads_scorer) {
    scorer = read_scorer(policy.file());
  } else if (policy.policy().reads_scores) {
    const ScoreFile file(policy.file());
  } else {
    const ScheduleFile file(policy.file());
  }
  const std::string found = scorer ? scorer->sha256 : sha256_of_file(policy.file());
  const std::string& expected = policy.file_sha256();
  if (!expected.empty() && expected != found) {
    throw DataError(fmt::format("{}: expected the {} with SHA-256 {}, found {}; it has changed",
                                policy.file(), kind_of_file(policy.policy()), expected, found));
  }
  return policy.with_file_sha256(found).with_scorer(std::move(scorer));
}

void check_scorers(const SweepPlan& plan) {
  for (const PlannedUnit& unit : plan.units) {
    for (const PlannedReplay& replay : unit.replays) {
      const Scorer* const scorer = plan.policy_of(replay).scorer();
      if (scorer == nullptr) continue;
      const Trace& trace = plan.traces[unit.trace];
      const ModelHeads model = model_heads(trace, unit.unit.name.sequence);
      ScoredLayer layer{.layers = model.num_layers,
                        .head_dim = unit.unit.shape.head_dim,
                        .value_dim = unit.unit.shape.value_dim};
      for (const auto& [index, heads] : model.of_layer) {
        layer.kv_heads = std::max(layer.kv_heads, heads.kv);
      }
      check_scorer(*scorer, layer, trace.file().string());
    }
  }
}

}  // namespace kvsim
