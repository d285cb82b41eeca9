#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "tests/support/stepwise_reference.h"

namespace kvsim::test_support {

/// How the heads of a model decide together.
enum class Coupling {
  layer,   ///< tova:scope=layer
  cascade  ///< spatten
};

/// A plain replay of heads that decide together, written from the definitions of the two policies.
class CoupledReference {
 public:
  /// `units` are ordered by layer, `budgets` those of the units. `other` is what another
  /// implementation did, see first_to_leave().
  CoupledReference(const std::vector<Unit>& units, const std::vector<int>& budgets, Mode mode,
                   Coupling coupling, const std::vector<Outcome>& other);

 private:
  struct Layer {
    int budget = 0;
    std::vector<std::size_t> members;
    std::vector<int> tokens;
  };

  void run_step(Layer& layer, int t);
  void attend(const Layer& layer, int t);
  void leave(Layer& layer, int token, int after);

  Coupling coupling_;
  const std::vector<Outcome>& other_;
  std::deque<ReferenceUnit> references_;
  std::map<int, Layer> layers_;
  std::map<int, double> scores_;  // per token
  std::set<int> left_;            // tokens that earlier layers evicted at this step

 public:
  std::vector<ReferenceRecord> records;  ///< per unit
  int followed = 0;
};

}  // namespace kvsim::test_support
