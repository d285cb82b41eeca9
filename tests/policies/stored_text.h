#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "tests/support/normal_numbers.h"

namespace kvsim::test_support {

/// A store that is shown a text of random tokens, step by step.
class StoredText {
 public:
  StoredText(const char* combinator, const StoreContext& context)
      : kind(Spec(std::string("full+") + combinator).rules({.budget = 8}).store),
        store(kind->make(context)),
        context_(context) {}

  /// Token t = 0, 1, .. arrives; afterwards `evicted` are no longer held.
  void step(std::vector<std::int32_t> evicted = {}, bool is_whole = false) {
    const auto t = static_cast<std::int32_t>(keys.size());
    const VectorShape& shape = context_.shape;
    keys.push_back(normal_numbers(static_cast<std::size_t>(shape.head_dim), 1, 2 * t));
    values.push_back(normal_numbers(static_cast<std::size_t>(shape.value_dim), 1, 2 * t + 1));
    store->admit(keys.back(), values.back());
    held.push_back(t);
    const std::vector<std::int32_t> attended = held;
    for (const std::int32_t token : evicted) std::erase(held, token);
    const std::vector<float> attention(attended.size(), 1.F / static_cast<float>(attended.size()));
    const std::vector<float> shown = query ? query(t) : std::vector<float>();
    const std::vector<std::span<const float>> queries(query ? 1 : 0, shown);
    store->settle({t, attended, attention, held, is_whole, queries});
  }

  void steps(int count, bool is_whole = false) {
    for (int i = 0; i < count; ++i) step({}, is_whole);
  }

  bool has_key(std::int32_t token) const { return same(store->at(token).key, keys, token); }
  bool has_value(std::int32_t token) const { return same(store->at(token).value, values, token); }

  std::shared_ptr<const StoreKind> kind;
  std::unique_ptr<Store> store;
  std::vector<std::vector<float>> keys, values;  // as recorded
  std::vector<std::int32_t> held;
  std::function<std::vector<float>(int step)> query;  // of the only query head; empty: not shown

 private:
  static bool same(std::span<const float> stored, const std::vector<std::vector<float>>& recorded,
                   std::int32_t token) {
    const std::vector<float>& row = recorded[static_cast<std::size_t>(token)];
    return std::equal(stored.begin(), stored.end(), row.begin(), row.end());
  }

  StoreContext context_;
};

}  // namespace kvsim::test_support
