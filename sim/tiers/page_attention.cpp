#include "sim/tiers/page_attention.h"

#include <algorithm>

namespace kvsim {

void PageAttention::sum(const AttentionBlock& block, int row) {
  const int step = block.first_step + row;
  const int own_page = step / page_;
  list_candidates(step);
  older_.assign(static_cast<std::size_t>(own_page), 0);
  own_ = 0;
  sink_ = 0;
  for (const HeadAttention& head : block.heads) {
    const double share = 1 / (head.weight_sum[row] * static_cast<double>(block.heads.size()));
    const float* weight = head.weight.row(row).data();
    for (int page = 0; page < own_page; ++page) {
      double sum = 0;
      for (int i = 0; i < page_; ++i) sum += *weight++;
      older_[page] += sum * share;
    }
    double sum = 0;
    for (int token = own_page * page_; token <= step; ++token) sum += *weight++;
    own_ += sum * share;
    sink_ += head.sink_weight[row] * share;
  }
}

void PageAttention::list_candidates(int step) {
  candidates_.clear();
  const int first = first_visible(unit_, step);
  const int own_page = step / page_;
  if (!unit_.selected) {
    for (int page = first / page_; page < own_page; ++page) candidates_.push_back(page);
    return;
  }
  for (const std::int32_t token : unit_.selected->at(step)) {
    const int page = token / page_;
    if (token < first || page >= own_page) continue;
    if (candidates_.empty() || candidates_.back() != page) candidates_.push_back(page);
  }
}

void choose_best(std::span<const std::int32_t> candidates, std::span<const double> score,
                 std::size_t count, std::vector<std::int32_t>& chosen) {
  chosen.assign(candidates.begin(), candidates.end());
  if (count >= chosen.size()) return;
  const auto is_better = [&](std::int32_t a, std::int32_t b) {
    return score[a] != score[b] ? score[a] > score[b] : a > b;
  };
  const auto end = chosen.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(chosen.begin(), end, chosen.end(), is_better);
  chosen.erase(end, chosen.end());
  std::sort(chosen.begin(), chosen.end());
}

std::size_t num_common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::size_t count = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i < *j) {
      ++i;
    } else if (*j < *i) {
      ++j;
    } else {
      ++count;
      ++i;
      ++j;
    }
  }
  return count;
}

}  // namespace kvsim
