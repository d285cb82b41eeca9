#include "sim/cli/regret_columns.h"

#include <algorithm>

namespace kvsim::cli {
namespace {

const std::string kWindow = "window";
const std::string kOptimal = "optimal:recent=0";

bool is_among(const std::vector<Spec>& policies, const std::string& text) {
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Spec& policy) { return policy.text() == text; });
}

}  // namespace

RegretColumns::RegretColumns(const std::vector<Spec>& policies) {
  const auto oracle = std::find_if(policies.begin(), policies.end(),
                                   [](const Spec& policy) { return policy.is_oracle(); });
  if (oracle == policies.end()) return;
  oracle_ = is_among(policies, kOptimal) ? kOptimal : oracle->text();
  has_gap_ = oracle_ == kOptimal && is_among(policies, kWindow);
}

std::vector<std::string> RegretColumns::columns() const {
  if (oracle_.empty()) return {};
  if (!has_gap_) return {"regret"};
  return {"regret", "gap closed"};
}

std::string RegretColumns::note() const {
  return oracle_.empty() ? "" : ", regret against " + oracle_;
}

void RegretColumns::append_to(std::vector<Value>& row, const std::string& policy,
                              const std::map<std::string, double>& recall) const {
  if (oracle_.empty()) return;
  row.emplace_back(recall.at(oracle_) - recall.at(policy));
  if (!has_gap_) return;
  const double gap = recall.at(oracle_) - recall.at(kWindow);
  if (gap > 0) {
    row.emplace_back((recall.at(policy) - recall.at(kWindow)) / gap);
  } else {
    row.emplace_back(std::monostate());
  }
}

}  // namespace kvsim::cli
