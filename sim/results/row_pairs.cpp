#include "sim/results/row_pairs.h"

#include <optional>

#include "sim/protocol/protocol.h"

namespace kvsim {
namespace {

std::optional<std::int64_t> tokens_asked_for(const MeasuredRow& row) { return row.budget; }

std::optional<std::int64_t> size_asked_for(const MeasuredRow& row) {
  const Amount request = request_of(row);
  return request.is_bytes() ? std::optional(request.bytes()) : std::nullopt;
}

/// The pairs of rows with the same budget, of which some rows have none.
template <class BudgetOf>
PairsOfModes pairs_with_equal(const BudgetOf& budget_of, const std::vector<MeasuredRow>& first,
                              const std::vector<MeasuredRow>& second) {
  using Key = std::tuple<std::string, UnitKey, std::int64_t, std::int64_t>;
  const auto key_of = [](const MeasuredRow& row, std::int64_t budget) {
    return Key{row.mode_of_pair(), unit_of(row), budget, row.seed};
  };
  std::map<Key, const MeasuredRow*> partners;
  for (const MeasuredRow& row : second) {
    if (const auto budget = budget_of(row)) partners.emplace(key_of(row, *budget), &row);
  }
  std::map<Key, RowPair> paired;  // ordered: sums do not depend on the order of the rows
  for (const MeasuredRow& row : first) {
    const auto budget = budget_of(row);
    if (!budget) continue;
    const auto partner = partners.find(key_of(row, *budget));
    if (partner == partners.end()) continue;
    paired.emplace(partner->first, RowPair{&row, partner->second});
  }
  PairsOfModes pairs;
  for (const auto& [key, pair] : paired) pairs[pair.first->mode].push_back(pair);
  return pairs;
}

}  // namespace

UnitKey unit_of(const MeasuredRow& row) {
  return {row.trace_id, row.sequence, row.layer, row.kv_head};
}

Amount request_of(const MeasuredRow& row) {
  return Amount::parse_budget(row.budget_request, "budget_request");
}

bool has_length(const MeasuredRow& row) {
  const Protocol protocol = Protocol::of_name(row.mode);
  return protocol.mode == Mode::stream && protocol.reference != Reference::sample;
}

bool is_at(const MeasuredRow& row, const Amount& budget) {
  if (!budget.is_share() && !budget.is_bytes()) return row.budget == budget.of(0);
  if (request_of(row) == budget) return true;
  return budget.is_share() && has_length(row) &&
         row.budget == budget.of(static_cast<int>(row.steps));
}

RowPairs pairs_of(const std::vector<MeasuredRow>& first, const std::vector<MeasuredRow>& second) {
  return {.of_tokens = pairs_with_equal(tokens_asked_for, first, second),
          .of_sizes = pairs_with_equal(size_asked_for, first, second)};
}

}  // namespace kvsim
