#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/results/result_sink.h"

namespace kvsim {

/// The rows of one sweep in memory, for a frame. What a result file holds in other tables is not
/// kept.
class MemoryResults final : public ResultSink {
 public:
  void add(const std::vector<Result>& results, const std::vector<CertificateRow>& certificates = {},
           const std::vector<LayerErrorRow>& layer_errors = {},
           const std::vector<SampledIntervalRow>& intervals = {}) override;

  std::vector<Result> unit_results(const Result& key) const override;

  /// All rows, ordered by key.
  std::vector<Result> results() const;

 private:
  using Unit = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
  using Replay = std::pair<std::string, std::int64_t>;  // policy, budget

  static Unit unit_of(const Result& row);

  std::map<Unit, std::map<Replay, Result>> rows_;
};

}  // namespace kvsim
