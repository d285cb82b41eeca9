#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// Numbers per slot of a cache, in rows that have one each.
template <class Number>
class SlotRows {
 public:
  explicit SlotRows(std::size_t num_rows = 0) : rows_(num_rows) {}

  std::size_t num_rows() const { return rows_.size(); }
  std::vector<Number>& operator[](std::size_t row) { return rows_[row]; }
  const std::vector<Number>& operator[](std::size_t row) const { return rows_[row]; }

  /// Closes the gaps that these slots leave, ascending.
  void remove(std::span<const std::size_t> slots) {
    if (slots.empty()) return;
    for (std::vector<Number>& row : rows_) {
      auto to = row.begin() + static_cast<std::ptrdiff_t>(slots.front());
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const std::size_t end = i + 1 < slots.size() ? slots[i + 1] : row.size();
        to = std::copy(row.begin() + static_cast<std::ptrdiff_t>(slots[i]) + 1,
                       row.begin() + static_cast<std::ptrdiff_t>(end), to);
      }
      row.erase(to, row.end());
    }
  }

 private:
  std::vector<std::vector<Number>> rows_;
};

/// The tokens that a policy saw in the cache at the last step.
class SlotTokens {
 public:
  /// `tokens` are those of the next step, the last of which has just arrived. Returns the slots of
  /// the tokens that have left since, ascending.
  std::span<const std::size_t> update(std::span<const std::int32_t> tokens) {
    left_.clear();
    if (tokens.size() != tokens_.size() + 1) {
      std::size_t slot = 0;
      for (std::size_t i = 0; i < tokens_.size(); ++i) {
        if (slot < tokens.size() && tokens[slot] == tokens_[i]) {
          ++slot;
        } else {
          left_.push_back(i);
        }
      }
    }
    tokens_.assign(tokens.begin(), tokens.end());
    return left_;
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::size_t> left_;
};

}  // namespace kvsim
