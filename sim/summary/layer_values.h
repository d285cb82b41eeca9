#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/results/paired_bootstrap.h"
#include "sim/results/store.h"
#include "sim/summary/unit_values.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

using Units = std::vector<const PlannedUnit*>;

/// The columns of a sweep's table that are sums over the layers of a text: the projected error, and
/// the predicted KL in nats per token. Those that the rows do not have are left out.
class LayerValues {
 public:
  /// `units`: of the plan, ordered as `kvsim compare` has them. `store` must have their rows.
  LayerValues(const SweepPlan& plan, const Units& units, const ResultStore& store);

  std::vector<std::string> columns() const;
  std::string note() const;

  /// `policy` and `amount` are places in the request; `predicted_kl` is the mean over units.
  void append_to(std::vector<Value>& row, std::size_t policy, std::size_t amount,
                 std::optional<double> predicted_kl) const;

  /// One value per layer, scaled so that the mean over the layers of a text is their sum. Empty
  /// unless all policies have all of them.
  UnitValues projected_errors(std::size_t amount) const;

  /// What is sampled where it is not texts; else empty.
  std::string about_intervals() const;

  /// Over the layers, or the texts, of these values.
  const PairedBootstrap& bootstrap() const { return bootstrap_; }

 private:
  struct Layer {
    const PlannedUnit* unit;  // the first of its units
    std::string trace_id;
    std::size_t sequence;
  };
  using Key = std::tuple<std::string, std::string, std::int64_t, std::string, std::int64_t>;

  static std::vector<Layer> layers_of(const SweepPlan& plan, const Units& units);
  static PairedBootstrap bootstrap_of(const std::vector<Layer>& layers);
  std::vector<double> projected_errors(std::size_t policy, std::size_t amount) const;

  const SweepPlan& plan_;
  std::vector<Layer> layers_;
  PairedBootstrap bootstrap_;
  std::vector<double> num_layers_;  // per sequence
  std::size_t num_units_ = 0;
  std::map<Key, double> projected_errors_;
  bool has_predicted_kl_ = false;
};

}  // namespace kvsim
