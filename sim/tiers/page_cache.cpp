#include "sim/tiers/page_cache.h"

#include <algorithm>

namespace kvsim {
namespace {

class ScoredCache : public PageCache {
 public:
  ScoredCache(int places, std::span<const double> score)
      : places_(places), score_(score), is_held_(score.size()) {}

  int advance(const TierStep& step) override {
    if (step.begins) {
      arrives(step.own_page);
      if (step.own_page > 0) hold(step.own_page - 1);
    }
    missing_.clear();
    for (const std::int32_t page : step.pages) {
      if (is_held_[page] == 0) missing_.push_back(page);
    }
    const int over = static_cast<int>(held_.size() + missing_.size()) - places_;
    if (over > 0) evict(static_cast<std::size_t>(over), step.chosen);
    for (const std::int32_t page : missing_) {
      arrives(page);
      hold(page);
    }
    return static_cast<int>(missing_.size());
  }

 protected:
  /// A page takes its place: when it begins, or is fetched.
  virtual void arrives(std::int32_t) {}

 private:
  void hold(std::int32_t page) {
    held_.push_back(page);
    is_held_[page] = 1;
  }

  // Scores stay as they are during a step, so all that leave at it are found at once.
  void evict(std::size_t count, const PageMarks& chosen) {
    leaving_.clear();
    std::copy_if(held_.begin(), held_.end(), std::back_inserter(leaving_),
                 [&](std::int32_t page) { return !chosen[page]; });
    const auto is_worse = [&](std::int32_t a, std::int32_t b) {
      return score_[a] != score_[b] ? score_[a] < score_[b] : a < b;
    };
    const auto end = leaving_.begin() + static_cast<std::ptrdiff_t>(count);
    if (end != leaving_.end()) {
      std::nth_element(leaving_.begin(), end, leaving_.end(), is_worse);
    }
    for (auto page = leaving_.begin(); page != end; ++page) is_held_[*page] = 0;
    std::erase_if(held_, [&](std::int32_t page) { return is_held_[page] == 0; });
  }

  int places_;
  std::span<const double> score_;
  std::vector<std::int32_t> held_;  // older pages
  std::vector<std::uint8_t> is_held_;
  std::vector<std::int32_t> missing_;
  std::vector<std::int32_t> leaving_;
};

/// The scores are the order in which pages took their places.
class FifoCache final : public PageCache {
 public:
  FifoCache(int places, int num_pages)
      : order_(static_cast<std::size_t>(num_pages)), cache_(places, order_) {}

  int advance(const TierStep& step) override { return cache_.advance(step); }

 private:
  class Ordered final : public ScoredCache {
   public:
    Ordered(int places, std::vector<double>& order) : ScoredCache(places, order), order_(order) {}

   private:
    void arrives(std::int32_t page) override { order_[page] = ++arrivals_; }

    std::vector<double>& order_;
    double arrivals_ = 0;
  };

  std::vector<double> order_;
  Ordered cache_;
};

class ClockCache final : public PageCache {
 public:
  ClockCache(int places, int num_pages)
      : num_places_(static_cast<std::size_t>(places) + 1),
        is_held_(static_cast<std::size_t>(num_pages)),
        is_referenced_(static_cast<std::size_t>(num_pages)) {}

  int advance(const TierStep& step) override {
    if (step.begins) take_place(step.own_page, step);
    int misses = 0;
    for (const std::int32_t page : step.pages) {
      is_referenced_[page] = 1;
      if (is_held_[page] != 0) continue;
      take_place(page, step);
      ++misses;
    }
    return misses;
  }

 private:
  void take_place(std::int32_t page, const TierStep& step) {
    is_held_[page] = 1;
    is_referenced_[page] = 1;
    if (place_.size() < num_places_) {
      place_.push_back(page);
      return;
    }
    while (!leaves(place_[hand_], step)) move_hand();
    is_held_[place_[hand_]] = 0;
    place_[hand_] = page;
    move_hand();
  }

  bool leaves(std::int32_t page, const TierStep& step) {
    if (page == step.own_page || step.chosen[page]) return false;
    if (is_referenced_[page] == 0) return true;
    is_referenced_[page] = 0;
    return false;
  }

  void move_hand() { hand_ = (hand_ + 1) % num_places_; }

  std::size_t num_places_;
  std::size_t hand_ = 0;
  std::vector<std::int32_t> place_;  // the page in each
  std::vector<std::uint8_t> is_held_;
  std::vector<std::uint8_t> is_referenced_;
};

}  // namespace

std::unique_ptr<PageCache> make_scored_cache(int places, std::span<const double> score) {
  return std::make_unique<ScoredCache>(places, score);
}

std::unique_ptr<PageCache> make_fifo_cache(int places, int num_pages) {
  return std::make_unique<FifoCache>(places, num_pages);
}

std::unique_ptr<PageCache> make_clock_cache(int places, int num_pages) {
  return std::make_unique<ClockCache>(places, num_pages);
}

}  // namespace kvsim
