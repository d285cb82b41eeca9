#include "analysis/analyse_unit.h"

#include <algorithm>
#include <iterator>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

std::vector<std::vector<double>> total_attention(const Unit& unit, const Backend& backend) {
  std::vector<std::vector<double>> totals(unit.query.size(),
                                          std::vector<double>(unit.num_tokens(), 0));
  for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
    for (std::size_t head = 0; head < totals.size(); ++head) {
      for (int row = 0; row < block.num_steps; ++row) {
        const double sum = block.heads[head].weight_sum[row];
        for (int j = 0; j <= block.first_step + row; ++j) {
          totals[head][j] += block.heads[head].weight(row, j) / sum;
        }
      }
    }
  });
  return totals;
}

}  // namespace

std::vector<std::vector<AnalysisRow>> analyse_unit(const Unit& unit,
                                                   std::span<const AnalysisSpec> analyses,
                                                   const std::vector<PolicyRun>& runs,
                                                   const AnalysisOptions& options,
                                                   const Backend& backend) {
  const InterruptScope scope(options.interrupted);
  const DeviceSummaries* const device = backend.summaries();
  const auto reads_blocks = [&](const AnalysisSpec& spec) {
    return spec.info->reads_attention && (device == nullptr || !spec.info->runs_on_device);
  };
  const auto any = [&](bool AnalysisInfo::*trait) {
    return std::any_of(analyses.begin(), analyses.end(),
                       [&](const AnalysisSpec& spec) { return spec.info->*trait; });
  };
  const auto check = [&] { check_interrupted(options.interrupted); };
  std::vector<std::vector<double>> totals;
  if (any(&AnalysisInfo::looks_ahead)) totals = total_attention(unit, backend);
  std::vector<std::unique_ptr<Subject>> subjects;  // analyses hold references to them
  std::vector<std::unique_ptr<Analysis>> running;
  for (const AnalysisSpec& spec : analyses) {
    const auto& subject = subjects.emplace_back(
        std::make_unique<Subject>(Subject{unit, {}, options.protocol, options.seed}));
    if (spec.info->looks_ahead) subject->total_attention = totals;
    if (spec.info->needs_stream) subject->stream = options.stream;
    if (spec.info->runs_on_device) subject->device = device;
    if (spec.info->of_layer) subject->read_rows = options.read_rows;
    if (spec.info->accepts != nullptr) {
      std::copy_if(runs.begin(), runs.end(), std::back_inserter(subject->runs),
                   [&](const PolicyRun& run) { return spec.info->accepts(run.policy); });
    }
    if (spec.info->spans_heads) {
      std::copy_if(options.layer_runs.begin(), options.layer_runs.end(),
                   std::back_inserter(subject->layer_runs),
                   [&](const LayerRun& run) { return spec.info->accepts(run.front()->policy); });
    }
    running.push_back(spec.info->make(spec.params, *subject));
  }
  if (std::any_of(analyses.begin(), analyses.end(), reads_blocks)) {
    for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
      check();
      for (std::size_t i = 0; i < running.size(); ++i) {
        if (reads_blocks(analyses[i])) running[i]->add(block);
      }
    });
  }
  std::vector<std::vector<AnalysisRow>> rows;
  for (const auto& analysis : running) {
    check();
    rows.push_back(analysis->finish());
  }
  return rows;
}

}  // namespace kvsim
