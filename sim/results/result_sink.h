#pragma once

#include <vector>

#include "sim/results/layer_error.h"
#include "sim/results/result.h"
#include "sim/results/sampled_interval.h"

namespace kvsim {

/// Takes the rows of a sweep, unit by unit: a result file (ResultStore), or memory (MemoryResults).
class ResultSink {
 public:
  virtual ~ResultSink() = default;

  /// Adds all rows, certificates, errors of layers and intervals or, on failure, none. Replaces
  /// rows with the same key, and their certificates.
  virtual void add(const std::vector<Result>& results,
                   const std::vector<CertificateRow>& certificates = {},
                   const std::vector<LayerErrorRow>& layer_errors = {},
                   const std::vector<SampledIntervalRow>& intervals = {}) = 0;

  /// All rows of the unit, mode and seed of `key`.
  virtual std::vector<Result> unit_results(const Result& key) const = 0;
};

}  // namespace kvsim
