#include "sim/summary/regret_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/registry/standard_policies.h"
#include "sim/results/regret.h"
#include "sim/summary/short_spec.h"

namespace kvsim {
namespace {

constexpr int kRegretDecimals = 4;
constexpr int kGapDecimals = 3;

/// "0.0120" with 4 decimals; never "-0.0000".
std::string fixed(double number, int decimals) {
  std::string text = fmt::format("{:.{}f}", number, decimals);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  if (is_zero && text.starts_with('-')) text.erase(0, 1);
  return text;
}

/// Without the zero before the point: tables are narrow.
std::string short_number(double number, int decimals) {
  std::string text = fixed(number, decimals);
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  if (text.substr(first).starts_with("0.")) text.erase(first, 1);
  return text;
}

/// "[.0120, .0340]"; empty without an interval.
std::string interval_text(const Estimate& estimate, int decimals) {
  if (!estimate.interval) return "";
  return fmt::format("[{}, {}]", short_number(estimate.interval->low, decimals),
                     short_number(estimate.interval->high, decimals));
}

bool is_among(const std::vector<Spec>& policies, const std::string& text) {
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Spec& policy) { return policy.text() == text; });
}

}  // namespace

RegretColumns::RegretColumns(const std::vector<Spec>& policies) {
  const auto oracle = std::find_if(policies.begin(), policies.end(), [](const Spec& policy) {
    return policy.is_oracle() && has_regret(policy);
  });
  if (oracle == policies.end()) return;
  const std::string exact = recall_optimum();
  const auto optimal = std::find_if(policies.begin(), policies.end(),
                                    [&](const Spec& policy) { return policy.text() == exact; });
  const Spec& reference = optimal == policies.end() ? *oracle : *optimal;
  oracle_ = reference.text();
  oracle_name_ = name_in_tables(reference);
  has_gap_ = oracle_ == exact && is_among(policies, baseline().text());
}

std::vector<std::string> RegretColumns::columns() const {
  if (!has_any()) return {};
  if (!has_gap_) return {"regret", "regret 95%"};
  return {"regret", "regret 95%", "gap closed", "gap 95%"};
}

std::string RegretColumns::note() const {
  return has_any() ? ", regret against " + oracle_name_ : "";
}

void RegretColumns::append_to(std::vector<Value>& row, const std::string& policy,
                              const UnitValues& recalls, const PairedBootstrap& bootstrap) const {
  if (!has_any()) return;
  if (!has_regret(Spec::stored(policy))) {
    row.resize(row.size() + columns().size(), Value(std::monostate()));
    return;
  }
  const Estimate regret = bootstrap.mean(differences(recalls, oracle_, policy));
  row.emplace_back(fmt::format("{:>7}", fixed(regret.value, kRegretDecimals)));  // "-0.1234"
  row.emplace_back(interval_text(regret, kRegretDecimals));
  if (!has_gap_) return;
  const std::string window = baseline().text();
  const auto closed =
      bootstrap.ratio(differences(recalls, policy, window), differences(recalls, oracle_, window));
  row.push_back(value_of(closed ? std::optional(closed->value) : std::nullopt));
  row.emplace_back(closed ? interval_text(*closed, kGapDecimals) : "");
}

}  // namespace kvsim
