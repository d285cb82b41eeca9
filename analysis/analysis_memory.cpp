#include "analysis/analysis_memory.h"

#include <algorithm>

#include "sim/results/policy_code.h"

namespace kvsim {
namespace {

/// The bytes that a text of a row takes in addition to the row.
std::size_t heap_bytes(const std::string& text) {
  constexpr std::size_t kInPlace = 15;
  constexpr std::size_t kOfAllocator = 16;
  return text.size() <= kInPlace ? 0 : text.size() + 1 + kOfAllocator;
}

/// Of a row of the table. Until the last row is made, the rows of the analysis take some as well.
std::size_t bytes_per_row(const AnalysisPlan& plan, const SweepJob& job, const AnalysisInfo& info,
                          const TableSchema& schema) {
  const Trace& trace = plan.sweep.traces[job.trace];
  constexpr std::size_t kVectorAndAllocator = 24 + 16;
  std::size_t texts = heap_bytes(trace.id()) + heap_bytes(job.units.front().name.sequence) +
                      heap_bytes(trace.file().string()) + heap_bytes(version());
  if (replays_policies(info)) {
    std::size_t longest = 0;
    for (const Spec& policy : plan.sweep.request.policies) {
      longest = std::max(longest, 2 * heap_bytes(policy.text()) + heap_bytes(policy_code(policy)));
    }
    texts += longest;
  }
  return schema.columns.size() * sizeof(Value) + kVectorAndAllocator + texts + sizeof(AnalysisRow) +
         info.columns.size() * sizeof(Value);
}

}  // namespace

std::size_t analysis_bytes(const AnalysisPlan& plan, const SweepJob& job,
                           const ReplayShape& shape) {
  AnalysisSize size{
      .tokens = shape.num_tokens, .group = shape.group_size, .head_dim = shape.head_dim};
  const Trace& trace = plan.sweep.traces[job.trace];
  for (const JobUnit& unit : job.units) {
    for (const auto& [dataset, of_dataset] : layer_info(trace, unit.name).recorded) {
      std::size_t& width = size.widths[dataset];
      width = std::max(width, static_cast<std::size_t>(of_dataset.back()));
    }
  }
  std::size_t with_blocks = 0;  // held while the blocks are
  std::size_t rows = 0;         // made after the blocks are gone
  for (std::size_t i = 0; i < plan.analyses.size(); ++i) {
    const AnalysisInfo& info = *plan.analyses[i].info;
    if (info.memory == nullptr) continue;
    size.runs = 0;
    size.evictions = 0;
    for (const PlannedReplay& replay : job.replays) {
      if (info.accepts == nullptr || !info.accepts(plan.sweep.policy_of(replay))) continue;
      ++size.runs;
      const auto budget = static_cast<std::size_t>(std::max(0, replay.budget));
      size.evictions += size.tokens - std::min(size.tokens, budget);
    }
    const AnalysisMemory memory = info.memory(plan.analyses[i].params, size);
    with_blocks += memory.bytes;
    rows += memory.rows * bytes_per_row(plan, job, info, plan.schemas[i]);
  }
  const std::size_t of_replays = replay_memory(shape) - read_memory(shape);
  return with_blocks + rows - std::min(rows, of_replays);
}

}  // namespace kvsim
