#include "sim/running/running_caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/attention/token_kinds.h"
#include "sim/base/errors.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/replay/estimator_steps.h"
#include "sim/replay/policy_steps.h"
#include "sim/replay/replay_checks.h"
#include "sim/results/schedule_file.h"
#include "sim/results/score_file.h"
#include "sim/running/running_split.h"

namespace kvsim {
namespace {

void check_policy(const Configuration& configuration, const ReplayOptions& options) {
  const Spec& policy = configuration.policy;
  if (policy.is_oracle()) {
    throw UsageError(
        fmt::format("{} plans with attention that a running model has not computed yet; impose its "
                    "schedule, or leave it out",
                    policy.text()));
  }
  const Rules rules = rules_at(policy, configuration.budget);
  if (rules.selects || rules.sees_full_attention) {
    throw UsageError(
        fmt::format("{} reads the attention to all tokens, which a model that evicts does not "
                    "compute; impose it, or leave it out",
                    policy.text()));
  }
  check_protocol(options.protocol, policy, configuration.budget);
  if (policy.is_estimator()) check_estimator(policy, configuration.budget);
}

}  // namespace

RunningCaches::RunningCaches(Configuration configuration, ModelShape shape, RunningText text,
                             const ReplayOptions& options)
    : configuration_(std::move(configuration)),
      shape_(std::move(shape)),
      options_(options),
      prompt_(options.protocol.first_measured(text.prompt_length)),
      num_tokens_(text.num_tokens),
      steps_run_(shape_.layers.size(), 0) {
  check_policy(configuration_, options_);
  if (options_.protocol.mode == Mode::prefill && prompt_ <= 0) {
    throw UsageError(
        fmt::format("{}: prefill mode needs a prompt; give its length", text.sequence));
  }
  const Spec& policy = configuration_.policy;
  const Rules rules = rules_at(policy, configuration_.budget);
  check_shape(rules);
  check_scorers(policy, shape_);
  if (rules.joins_tokens()) joining_ = rules.rest ? "+rest" : "+merge";
  selected_.resize(shape_.layers.size());
  is_plain_ = !policy.is_estimator() && rules.is_exact();
  rotates_to_slots_ = rules.slot_positions;
  scope_ = policy.is_estimator() ? Scope::head : rules.scope;
  for (const ModelLayer& layer : shape_.layers) {
    shares_caches_ |= !layer.readers.empty();
    num_queries_.emplace_back(layer.readers.size(), 0);
    first_units_.push_back(units_.size());
    for (int head = 0; head < layer.shape.num_kv_heads; ++head) {
      units_.push_back(std::make_unique<RunningUnit>(UnitName{text.sequence, layer.index, head},
                                                     shape_, layer, text.prompt_length));
    }
  }
  waits_for_readers_ = shares_caches_ && reads_attention(rules);
  if (shares_caches_ && !is_plain_) {
    throw UsageError(
        fmt::format("{} needs the output of each layer before all layers that share its cache have "
                    "attended; impose it, or leave it out",
                    policy.text()));
  }
  if ((policy.policy().follows_schedule || policy.policy().reads_scores) && num_tokens_ == 0) {
    throw UsageError(fmt::format("{}: its file is of a text of known length; evaluate that text",
                                 policy.text()));
  }
  if (policy.policy().follows_schedule) read_schedules();
  if (policy.policy().reads_scores) read_scores(rules);
  const bool is_split =
      policy.allocation() == Allocation::uniform || !configuration_.budgets.empty();
  if (is_split) {
    make_replays();
  } else if (!needs_measurement(policy.allocation())) {
    split_budget();
  } else if (options_.protocol.mode == Mode::stream) {
    throw UsageError(
        fmt::format("{}: the split of the budget is measured before the first eviction; use mode "
                    "prefill, or evaluate a text that is known",
                    policy.text()));
  }
}

void RunningCaches::check_shape(const Rules& rules) const {
  const bool needs_projection = configuration_.policy.needs().output_projection;
  for (const ModelLayer& layer : shape_.layers) {
    if (rules.rest && (layer.sliding_window || layer.attention_chunk)) {
      throw UsageError(
          fmt::format("{}: layer {} has {}, which evicted tokens would leave; leave +rest out",
                      configuration_.policy.text(), layer.index,
                      layer.sliding_window ? "a sliding window" : "chunks of attention"));
    }
    if (needs_projection && layer.output_projection == nullptr) {
      throw UsageError(
          fmt::format("{} needs the output projection W_O, which was not found in layer {}",
                      configuration_.policy.text(), layer.index));
    }
    if (needs_projection && !layer.readers.empty()) {
      throw UsageError(fmt::format(
          "{} needs layers whose caches no other one reads; layer {} reads that of layer {}",
          configuration_.policy.text(), layer.readers.front().index, layer.index));
    }
    if (!layer.shape.rope && (rules.slot_positions || rules.sees_rotation)) {
      throw UsageError(fmt::format(
          "{} needs to know how the model rotates keys, which was not found in layer {}",
          configuration_.policy.text(), layer.index));
    }
  }
}

void RunningCaches::read_schedules() {
  const Spec& policy = configuration_.policy;
  const ScheduleFile file(policy.file());
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const int budget = policy.tokens_of(configuration_.budget_of(i));
    configuration_.schedules.push_back(file.read(policy.tokens_of(configuration_.budget),
                                                 units_[i]->unit().name, num_tokens_,
                                                 {.first_eviction = std::max(0, prompt_ - 1),
                                                  .budget = budget,
                                                  .most_held = options_.protocol.most_held(budget),
                                                  .page = options_.protocol.paging.size}));
  }
}

void RunningCaches::read_scores(const Rules& rules) {
  const ScoreFile file(configuration_.policy.file());
  const int count = rules.prompt_only ? prompt_ : num_tokens_;
  for (const auto& unit : units_) {
    configuration_.file_scores.push_back(file.read(unit->unit().name, count, {}));
  }
}

void RunningCaches::split_budget() {
  configuration_.budgets = split_of(configuration_, shape_, units_,
                                    {.prompt = prompt_, .tokens = num_tokens_}, options_.protocol);
  make_replays();
}

void RunningCaches::make_replays() {
  places_.assign(shape_.layers.size(), {});
  std::vector<RunningUnit*> together;
  std::size_t first_layer = 0;
  const auto make_replay = [&](std::size_t end) {
    const Configuration part = configuration_.part(end - together.size(), together.size());
    replays_.push_back(make_running_replay(part, together, options_, &kinds_));
    together.clear();
  };
  for (std::size_t layer = 0; layer < places_.size(); ++layer) {
    if (together.empty()) first_layer = layer;
    for (const auto& unit : units_of(layer)) {
      together.push_back(unit.get());
      places_[layer].push_back({replays_.size(), layer - first_layer});
      const std::size_t end = first_units_[layer] + places_[layer].size();
      if (scope_ == Scope::head) make_replay(end);
    }
    if (scope_ == Scope::layer) make_replay(first_units_[layer] + places_[layer].size());
  }
  if (scope_ == Scope::model) make_replay(units_.size());
}

std::size_t RunningCaches::index_of(int layer) const {
  const auto found = std::ranges::find(shape_.layers, layer, &ModelLayer::index);
  if (found == shape_.layers.end()) {
    throw UsageError(fmt::format("layer {}: the caches were made for other layers", layer));
  }
  return static_cast<std::size_t>(found - shape_.layers.begin());
}

std::span<const std::unique_ptr<RunningUnit>> RunningCaches::units_of(std::size_t layer) const {
  const auto heads = static_cast<std::size_t>(shape_.layers[layer].shape.num_kv_heads);
  return std::span(units_).subspan(first_units_[layer], heads);
}

int RunningCaches::num_tokens(int layer) const {
  return units_of(index_of(layer)).front()->num_tokens();
}

void RunningCaches::require_whole() const {
  if (!has_failed_) return;
  throw UsageError(fmt::format("{}: an earlier forward pass failed; begin a new text",
                               configuration_.policy.text()));
}

void RunningCaches::advance(int layer, const LayerRows& rows, float* outputs,
                            const std::atomic<bool>* interrupted) {
  require_whole();
  if (rows.count == 0) return;
  const std::size_t index = index_of(layer);
  const int first = units_of(index).front()->num_tokens();
  const int end = first + rows.count;
  const bool is_late = waits() && end > prompt_;
  if (is_late && (first < prompt_ || rows.count > 1)) {
    throw UsageError(fmt::format(
        "{} {}: feed the prompt in forward passes of its own{}", configuration_.policy.text(),
        takes_single_steps() ? "decides for several layers at each step"
                             : "splits its budget by what it measures on the prompt",
        takes_single_steps() ? ", and then one token at a time" : ""));
  }
  has_failed_ = true;  // until the steps have run
  add_selected(index, first, rows);
  for (const auto& unit : units_of(index)) unit->append(rows);
  if (static_cast<int>(kinds_.size()) < end) kinds_.resize(static_cast<std::size_t>(end));
  kinds_.front() = TokenKind::special;
  if ((is_late && !waits_for_readers_) || !waits()) {
    options_.interrupted = interrupted;
    const LayerShape& shape = shape_.layers[index].shape;
    const OutputRows target{outputs, first, shape.num_query_heads, shape.value_dim};
    run_steps(index, first, rows.count, outputs == nullptr ? nullptr : &target);
  }
  has_failed_ = false;
}

void RunningCaches::end_forward(const std::atomic<bool>* interrupted) {
  require_whole();
  if (!waits()) return;
  const int waiting = units_.front()->num_tokens();
  for (const auto& unit : units_) {
    if (unit->num_tokens() == waiting) continue;
    throw UsageError(fmt::format("layer {} has {} tokens, layer {} has {}; advance every layer",
                                 unit->unit().name.layer, unit->num_tokens(),
                                 shape_.layers.front().index, waiting));
  }
  check_readers(waiting);
  has_failed_ = true;
  options_.interrupted = interrupted;
  if (replays_.empty() && waiting >= prompt_) split_budget();
  const int run = steps_run_.front();
  if (!replays_.empty() && run < waiting) run_all_layers(run, waiting - run);
  has_failed_ = false;
}

void RunningCaches::compute(std::size_t layer, int first, int count) {
  if (shares_caches_ && !waits_for_readers_) return;  // the readers' queries come later
  for (const auto& unit : units_of(layer)) unit->compute(first, count);
}

void RunningCaches::run_steps(std::size_t layer, int first, int count, const OutputRows* outputs) {
  for (int step = first; step < first + count; ++step) {
    check_interrupted(options_.interrupted);
    if ((step - first) % kBlockSteps == 0) {
      compute(layer, step, std::min(kBlockSteps, first + count - step));
    }
    std::size_t last = replays_.size();
    for (const Place& place : places_[layer]) {
      if (place.replay == last) continue;  // decides for several heads
      last = place.replay;
      replays_[place.replay]->run(place.layer, step, outputs);
    }
  }
  steps_run_[layer] = first + count;
}

void RunningCaches::run_all_layers(int first, int count) {
  for (int step = first; step < first + count; ++step) {
    for (std::size_t layer = 0; layer < shape_.layers.size(); ++layer) {
      run_steps(layer, step, 1, nullptr);
    }
  }
}

void RunningCaches::add_text(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) kinds_.push_back(token_kind(text));
}

std::vector<CacheUsage> RunningCaches::usage(int layer) const {
  require_whole();
  const std::size_t index = index_of(layer);
  const std::int32_t tokens = num_tokens(layer);
  const int run = steps_run_[index];
  std::vector<CacheUsage> usages(units_of(index).size());
  for (std::size_t head = 0; head < usages.size(); ++head) {
    CacheUsage& usage = usages[head];
    if (run > 0) {
      const Place& place = places_[index][head];
      // One replay decides for all heads of the layer, or for one; their stores may differ.
      const bool is_shared = places_[index].front().replay == places_[index].back().replay;
      usage = replays_[place.replay]->usage(place.layer, is_shared ? head : 0, run);
    }
    // Tokens whose steps wait are held.
    std::replace(usage.evicted_after.begin(), usage.evicted_after.end(), run, tokens);
    usage.evicted_after.resize(static_cast<std::size_t>(tokens), tokens);
  }
  return usages;
}

}  // namespace kvsim
