#include "sim/summary/unit_values.h"

#include <algorithm>
#include <functional>

namespace kvsim {

std::vector<double> differences(const UnitValues& values, const std::string& a,
                                const std::string& b) {
  std::vector<double> differences = values.at(a);
  const std::vector<double>& others = values.at(b);
  std::transform(differences.begin(), differences.end(), others.begin(), differences.begin(),
                 std::minus<>());
  return differences;
}

}  // namespace kvsim
