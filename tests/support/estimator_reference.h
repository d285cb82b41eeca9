#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/stepwise_reference.h"

namespace kvsim::test_support {

constexpr std::uint64_t kEstimationSeed = 5;

/// An estimator and the settings of its replay.
struct Estimation {
  std::string spec;
  int budget = 1;
  int first = 0;   ///< protected first tokens
  int newest = 0;  ///< protected newest tokens
  std::optional<Quantization> stored = {};
  Mode mode = Mode::stream;
};

/// The replay of an estimator, straight from its definition.
class EstimatorReference {
 public:
  EstimatorReference(const Unit& unit, const Estimation& estimation);
  EstimatorReference(const EstimatorReference&) = delete;
  EstimatorReference& operator=(const EstimatorReference&) = delete;

 private:
  void run_step(int t);
  std::vector<Entry> entries_at(int t);
  std::vector<double> estimate(int head, int t, const std::vector<Entry>& entries) const;
  void note_what_stays(int t, const std::vector<Entry>& entries);

  const Unit& unit_;
  int budget_;
  Unit stored_unit_;
  ReferenceUnit recorded_;
  ReferenceUnit stored_;
  int first_, newest_, room_;
  std::unique_ptr<Estimator> estimator_;

 public:
  ReferenceRecord record;
  int peak_tokens = 0;
};

}  // namespace kvsim::test_support
