#include "sim/running/running_replay.h"

#include <algorithm>
#include <stdexcept>

#include "sim/outputs/altered_attention.h"
#include "sim/outputs/cached_attention.h"
#include "sim/replay/estimator_steps.h"
#include "sim/replay/policy_steps.h"
#include "sim/replay/step_vectors.h"

namespace kvsim {
namespace {

// The query head of the layer that is `head` of the unit's group.
int head_of_layer(const Unit& unit, int head) {
  return unit.name.kv_head * unit.group_size() + head;
}

void write_output(const Eigen::VectorXd& output, float* to) {
  std::transform(output.begin(), output.end(), to,
                 [](double number) { return static_cast<float>(number); });
}

class RunningPolicy final : public RunningReplay, private StepSource {
 public:
  RunningPolicy(const Configuration& configuration, std::span<RunningUnit* const> units,
                const ReplayOptions& options, const std::vector<TokenKind>* kinds)
      : layers_(by_layer(units)),
        steps_(configuration.policy, contexts_of(configuration, layers_.front(), options),
               budgets_of(configuration, layers_),
               EvictionSteps(kUnknownLength, units.front()->unit().prompt_length, options.protocol),
               kinds) {
    const int prompt = options.protocol.first_measured(units.front()->unit().prompt_length);
    for (Layer& layer : layers_) {
      for (Member& member : layer) {
        member.attention =
            make_measured_attention(member.unit->replayed(), steps_.rules(), prompt, options.seed);
      }
    }
  }

  void run(std::size_t layer, int step, const OutputRows* outputs) override {
    outputs_ = outputs;
    steps_.begin_block(layer);
    steps_.run(layer, step, *this);
    outputs_ = nullptr;
  }

  CacheUsage usage(std::size_t layer, std::size_t index, int num_tokens) const override {
    const Cache& cache = steps_.cache(layer);
    ReplayedUnit& unit = layers_[layer].front().unit->replayed();
    const std::size_t peak = steps_.peak_tokens(layer);
    const auto stored = layers_[layer][index].attention->peak_bytes();
    CacheUsage usage{cache.evicted_after(), peak,
                     stored.value_or(peak * unit.bytes_per_token(steps_.rules())),
                     cache.num_ties()};
    std::replace(usage.evicted_after.begin(), usage.evicted_after.end(), kUnknownLength,
                 num_tokens);
    return usage;
  }

 private:
  struct Member {
    RunningUnit* unit;
    std::unique_ptr<MeasuredAttention> attention;
  };
  using Layer = std::vector<Member>;

  static std::vector<Layer> by_layer(std::span<RunningUnit* const> units) {
    std::vector<Layer> layers;
    for (RunningUnit* unit : units) {
      const int layer = unit->unit().name.layer;
      if (layers.empty() || layers.back().front().unit->unit().name.layer != layer) {
        layers.emplace_back();
      }
      layers.back().push_back({unit, nullptr});
    }
    return layers;
  }

  static std::vector<int> budgets_of(const Configuration& configuration,
                                     const std::vector<Layer>& layers) {
    std::vector<int> budgets;
    std::size_t begin = 0;
    for (const Layer& layer : layers) {
      budgets.push_back(configuration.shared_budget(begin, layer.size()));
      begin += layer.size();
    }
    return budgets;
  }

  static std::vector<Context> contexts_of(const Configuration& configuration, const Layer& layer,
                                          const ReplayOptions& options) {
    std::vector<Context> contexts;
    for (const Member& member : layer) {
      contexts.push_back(context_of(configuration, member.unit->unit(), options, contexts.size()));
      contexts.back().output_projection = member.unit->output_projection();
    }
    return contexts;
  }

  void attend(std::size_t layer, int step, std::span<const std::int32_t> tokens,
              std::span<std::vector<float>> means) override {
    const bool is_read =
        outputs_ != nullptr || steps_.reads_attention() || steps_.rules().store != nullptr;
    for (std::vector<float>& mean : means) mean.assign(is_read ? tokens.size() : 0, 0);
    if (!is_read) return;
    Layer& members = layers_[layer];
    for (std::size_t m = 0; m < members.size(); ++m) {
      Member& member = members[m];
      std::vector<float>& mean = mean_of(means, m);
      const Unit& unit = member.unit->unit();
      const int row = step - member.unit->replayed().block().first_step;
      const double heads = num_averaged(unit, members.size(), means);
      for (int head = 0; head < unit.group_size(); ++head) {
        member.attention->attend(head, row, tokens);
        member.attention->add_to_mean(heads, mean);
        if (outputs_ == nullptr) continue;
        write_output(member.attention->output(), outputs_->of(step, head_of_layer(unit, head)));
      }
    }
  }

  void settle(std::size_t layer, std::span<const std::int32_t> held, bool is_whole) override {
    for (Member& member : layers_[layer]) member.attention->settle(held, is_whole);
  }

  void average_full_attention(std::size_t, int, std::span<const std::int32_t>,
                              std::span<std::vector<float>>) override {
    throw std::logic_error("a running model has no full attention");
  }

  ResidentVectors keys(std::size_t layer, std::size_t head,
                       std::span<const std::int32_t> tokens) const override {
    return resident_vectors(unit(layer, head).key, tokens);
  }

  ResidentVectors values(std::size_t layer, std::size_t head,
                         std::span<const std::int32_t> tokens) const override {
    return resident_vectors(unit(layer, head).value, tokens);
  }

  void set_queries(std::size_t layer, std::size_t head, int step,
                   std::vector<std::span<const float>>& queries) const override {
    kvsim::set_queries(unit(layer, head), step, queries);
  }

  std::span<const std::int32_t> selected(std::size_t layer, int step) const override {
    return selected_at(unit(layer, 0), step);
  }

  const Unit& unit(std::size_t layer, std::size_t head) const {
    return layers_[layer][head].unit->unit();
  }

  std::vector<Layer> layers_;
  PolicySteps steps_;
  const OutputRows* outputs_ = nullptr;  // of the step that runs
};

class RunningEstimator final : public RunningReplay {
 public:
  RunningEstimator(const Configuration& configuration, RunningUnit& unit,
                   const ReplayOptions& options)
      : unit_(unit),
        prompt_(options.protocol.first_measured(unit.unit().prompt_length)),
        steps_(configuration.policy, context_of(configuration, unit.unit(), options), prompt_,
               unit.replayed()),
        full_(unit.replayed()),
        estimated_(unit.replayed(), steps_.rules(), prompt_) {}

  void run(std::size_t, int step, const OutputRows* outputs) override {
    const auto entries = steps_.run(step);
    if (outputs == nullptr) return;
    const int row = step - unit_.replayed().block().first_step;
    if (step < prompt_) {
      for (auto token = std::ssize(all_tokens_); token <= step; ++token) {
        all_tokens_.push_back(static_cast<std::int32_t>(token));
      }
    }
    for (int head = 0; head < unit_.unit().group_size(); ++head) {
      float* const to = outputs->of(step, head_of_layer(unit_.unit(), head));
      if (step < prompt_) {
        full_.attend(head, row, std::span(all_tokens_).first(static_cast<std::size_t>(step) + 1));
        write_output(full_.output(), to);
      } else {
        estimated_.estimate(head, row, entries);
        write_output(estimated_.output(), to);
      }
    }
  }

  CacheUsage usage(std::size_t, std::size_t, int num_tokens) const override {
    return steps_.usage(num_tokens);
  }

 private:
  RunningUnit& unit_;
  int prompt_;
  EstimatorSteps steps_;
  CachedAttention full_;  // of the prompt
  AlteredAttention estimated_;
  std::vector<std::int32_t> all_tokens_;
};

}  // namespace

std::unique_ptr<RunningReplay> make_running_replay(const Configuration& configuration,
                                                   std::span<RunningUnit* const> units,
                                                   const ReplayOptions& options,
                                                   const std::vector<TokenKind>* kinds) {
  if (configuration.policy.is_estimator()) {
    return std::make_unique<RunningEstimator>(configuration, *units.front(), options);
  }
  return std::make_unique<RunningPolicy>(configuration, units, options, kinds);
}

}  // namespace kvsim
