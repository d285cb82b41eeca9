// Evicts the token without which the outputs of the next W steps change least. An output is
// evaluated exactly, as from a cache that keeps the rest and all that arrives until then. Unlike
// attention, errors of outputs do not add up over missing tokens: where attention is spread out, an
// output is a mean, and what counts is that the kept tokens represent the text.

#include <fmt/format.h>

#include "oracle/lookahead/beam.h"
#include "policies/interface/policy_info.h"
#include "sim/base/errors.h"
#include "sim/base/interrupt.h"
#include "sim/replay/planner.h"

namespace kvsim {
namespace {

enum class OutputCost { error, projected, predicted };

struct Settings {
  int window;
  OutputCost cost;
  int beam;
};

Settings settings_of(const Params& params) {
  const std::string& cost = params.choice("cost");
  const int beam = params.integer("beam");
  if (cost == "projected" && beam > 1) {
    throw UsageError(fmt::format(
        "lookahead: beam: expected 1 with cost=projected, whose caches are those of a whole layer, "
        "found {}; choose another cost or leave beam out",
        beam));
  }
  return {.window = params.integer("window"),
          .cost = cost == "projected"   ? OutputCost::projected
                  : cost == "predicted" ? OutputCost::predicted
                                        : OutputCost::error,
          .beam = beam};
}

/// Throws DataError if the unit lacks what the cost weighs outputs by.
void check_unit(const Unit& unit, OutputCost cost) {
  const auto refuse = [&](std::string_view what) {
    throw DataError(fmt::format("sequence {} layer {}: expected the {} lookahead needs, found none",
                                unit.name.sequence, unit.name.layer, what));
  };
  if (cost == OutputCost::projected && unit.output_projection.empty()) {
    refuse("output projection that cost=projected of");
  }
  if (cost == OutputCost::predicted && unit.output_score_grad.empty()) {
    refuse("gradients that cost=predicted of");
  }
}

/// The caches of a layer's units at one budget of each.
struct LayerCaches {
  std::shared_ptr<StepsBySlots> error;  ///< of cost=projected, else null
  std::vector<Beam> units;
};

class Lookahead final : public Planner {
 public:
  explicit Lookahead(const Settings& settings) : settings_(settings) {}

  bool plans_jointly() const override { return settings_.cost == OutputCost::projected; }

  std::vector<std::vector<Plan>> plan(std::span<const Future> layer,
                                      std::span<const std::vector<int>> budgets) const override {
    std::vector<LayerCaches> caches(budgets.front().size());
    for (std::size_t unit = 0; unit < layer.size(); ++unit) {
      const Future& future = layer[unit];
      check_unit(future.unit(), settings_.cost);
      std::shared_ptr<const HeadProjections> projections;
      if (settings_.cost == OutputCost::projected) {
        projections = std::make_shared<const HeadProjections>(future.unit());
      }
      for (std::size_t i = 0; i < caches.size(); ++i) {
        std::vector<int> evictions = future.num_evictions(budgets[unit][i]);
        auto cache = std::make_unique<LookaheadCache>(future.unit(), evictions, settings_.window);
        cache->set_cost(make_cost(future.unit(), projections, *cache, caches[i]));
        caches[i].units.emplace_back(std::move(cache), std::move(evictions),
                                     static_cast<std::size_t>(settings_.beam));
      }
    }
    follow(layer, caches);
    std::vector<std::vector<Plan>> plans(layer.size());
    for (const LayerCaches& of_budget : caches) {
      for (std::size_t unit = 0; unit < layer.size(); ++unit) {
        plans[unit].push_back({.schedule = of_budget.units[unit].schedule()});
      }
    }
    return plans;
  }

 private:
  std::unique_ptr<EvictionCost> make_cost(const Unit& unit,
                                          const std::shared_ptr<const HeadProjections>& projections,
                                          const LookaheadCache& cache, LayerCaches& layer) const {
    const std::size_t steps = cache.num_steps();
    if (settings_.cost == OutputCost::error) return make_error_cost(unit, cache.held(), steps);
    if (settings_.cost == OutputCost::predicted)
      return make_predicted_cost(unit, cache.held(), steps);
    if (!layer.error) layer.error = std::make_shared<StepsBySlots>(steps, projections->hidden);
    return make_projected_cost(projections, cache.held(), steps, layer.error);
  }

  // All caches go through the text together, so that full attention is computed once, and so that
  // within a step the heads of a layer evict one after the other.
  void follow(std::span<const Future> layer, std::vector<LayerCaches>& caches) const {
    const int n = layer.front().num_tokens();
    int step = n;  // the first that evicts
    for (const LayerCaches& of_budget : caches) {
      for (const Beam& unit : of_budget.units) step = std::min(step, unit.first_eviction());
    }
    std::vector<std::unique_ptr<AttentionPass>> passes;
    for (const Future& unit : layer) passes.push_back(unit.backend().attend(unit.unit()));
    AttentionBlock block;
    for (int first = (step + 1) / kBlockSteps * kBlockSteps; step < n; first += kBlockSteps) {
      layer.front().check_interrupted();
      const int received = std::min(first + kBlockSteps, n);
      for (const LayerCaches& of_budget : caches) {
        if (of_budget.error && first < n) of_budget.error->clear(first, received - first);
      }
      for (std::size_t unit = 0; unit < layer.size() && first < n; ++unit) {
        passes[unit]->compute(first, received - first, Outputs::required, block);
        for (LayerCaches& of_budget : caches) of_budget.units[unit].receive(block);
      }
      for (; step < n && (step + settings_.window < received || received == n); ++step) {
        poll_interrupt();
        for (LayerCaches& of_budget : caches) {
          for (Beam& unit : of_budget.units) unit.evict(step);
        }
      }
    }
  }

  Settings settings_;
};

}  // namespace

PolicyInfo lookahead_oracle() {
  return {.name = "lookahead",
          .keeps = "what the outputs of the next steps would change most without",
          .source = "oracle/README.md",
          .sees = "the attention and the values of the next steps",
          .differences = "no bound: it looks only so far ahead, and evicts one token at a time",
          .params = {Param::integer("window", 16, 1, 1 << 20, "steps that it looks ahead"),
                     Param::choice("cost", {"error", "projected", "predicted"},
                                   "what a changed output costs: its squared error, that of the "
                                   "layer's heads together after W_O, or the KL that recorded "
                                   "gradients predict"),
                     Param::integer("beam", 1, 1, 32,
                                    "caches that are carried along; the best one counts")},
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<Lookahead>(settings_of(params));
          },
          .planning_cost =
              [](const Params& params, const UnitSizes& unit, std::int64_t held) {
                const std::int64_t beam = params.integer("beam");
                std::int64_t each = 40 + params.integer("window") * unit.dims() / 160;
                if (params.choice("cost") == "projected") each += unit.hidden * 5 / 2;
                return unit.attended(held) * unit.group * each * (beam == 1 ? 1 : 3 * beam);
              },
          .needs =
              [](const Params& params) {
                const OutputCost cost = settings_of(params).cost;
                return TraceNeeds{.output_projection = cost == OutputCost::projected,
                                  .output_score_grad = cost == OutputCost::predicted};
              },
          .make = make_scheduled};
}

}  // namespace kvsim
