#include "sim/cli/unit_recalls.h"

#include <algorithm>
#include <functional>

namespace kvsim::cli {

std::vector<double> differences(const UnitRecalls& recalls, const std::string& a,
                                const std::string& b) {
  std::vector<double> differences = recalls.at(a);
  const std::vector<double>& others = recalls.at(b);
  std::transform(differences.begin(), differences.end(), others.begin(), differences.begin(),
                 std::minus<>());
  return differences;
}

}  // namespace kvsim::cli
