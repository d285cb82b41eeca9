#include "oracle/auction/auction.h"

#include <algorithm>
#include <functional>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

// The second value of a bid may be this many epsilon too high, so that fewer lists are filled.
constexpr double kStale = 3;

void push(std::vector<std::pair<double, int>>& heap, std::pair<double, int> candidate) {
  heap.push_back(candidate);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

}  // namespace

Auction::Auction(const Takers& takers, Assignment& assignment, CandidateLists& lists)
    : takers_(takers), assignment_(assignment), lists_(lists) {
  for (int taker = 0; taker < takers.count(); ++taker) {
    if (lists.has_list(taker)) continue;
    Candidates& candidates = candidates_[taker];
    for (std::size_t token = 0; token < takers.num_choices(taker); ++token) {
      const auto place = static_cast<int>(token);
      if (assignment.taker_of(place) != taker) candidates.emplace_back(value(taker, place), place);
    }
    std::make_heap(candidates.begin(), candidates.end(), std::greater<>());
  }
}

void Auction::run(double epsilon) {
  release_worse_than(epsilon);
  for (;;) {
    poll_interrupt();
    if (!lacking_.empty()) {
      const int taker = lacking_.back();
      lacking_.pop_back();
      while (assignment_.missing(taker) > 0) bid(taker, epsilon);
    } else if (!lacking_unlisted_.empty()) {
      const int taker = lacking_unlisted_.back();
      lacking_unlisted_.pop_back();
      if (assignment_.missing(taker) > 0) bid_without_list(taker, epsilon);
    } else {
      return;
    }
  }
}

void Auction::release_worse_than(double epsilon) {
  std::vector<double> most(static_cast<std::size_t>(takers_.count()));
  for (int taker = takers_.count() - 1; taker >= 0; --taker) {
    poll_interrupt();
    double best = 0;
    if (lists_.has_list(taker)) {
      best = lists_.best_two(taker, kStale * epsilon).value;
    } else {
      Candidates& candidates = candidates_.at(taker);
      const auto lowest = take_lowest(taker, candidates);
      push(candidates, lowest);
      best = lowest.first;
    }
    most[static_cast<std::size_t>(taker)] = best + epsilon;
  }
  for (int token = 0; token < takers_.num_tokens(); ++token) {
    const int taker = assignment_.taker_of(token);
    if (taker == Assignment::kNobody) continue;
    if (value(taker, token) <= most[static_cast<std::size_t>(taker)]) continue;
    assignment_.release(token);
    lost(taker, token);
  }
  for (int taker = takers_.count() - 1; taker >= 0; --taker) {
    if (assignment_.missing(taker) > 0) queue(taker);
  }
}

void Auction::bid(int taker, double epsilon) {
  const Offer offer = lists_.best_two(taker, kStale * epsilon);
  take(offer.token, taker,
       assignment_.price(offer.token) + (offer.next_value - offer.value) + epsilon);
}

// The last of the lowest sets the price of the others, and stays a candidate.
void Auction::bid_without_list(int taker, double epsilon) {
  Candidates& candidates = candidates_.at(taker);
  lowest_.clear();
  for (int more = assignment_.missing(taker); more >= 0; --more) {
    lowest_.push_back(take_lowest(taker, candidates));
  }
  const double level = lowest_.back().first + epsilon;
  push(candidates, lowest_.back());
  lowest_.pop_back();
  for (const auto& [value, token] : lowest_) {
    take(token, taker, assignment_.price(token) + (level - value));
  }
}

void Auction::take(int token, int taker, double price) {
  const int before = assignment_.taker_of(token);
  assignment_.give(token, taker);
  assignment_.raise(token, price);
  if (before == Assignment::kNobody) return;
  lost(before, token);
  queue(before);
}

void Auction::lost(int taker, int token) {
  if (lists_.has_list(taker)) {
    lists_.lost(taker, token);
  } else {
    push(candidates_.at(taker), {value(taker, token), token});
  }
}

void Auction::queue(int taker) {
  if (lists_.has_list(taker)) {
    lacking_.push_back(taker);
  } else if (std::find(lacking_unlisted_.begin(), lacking_unlisted_.end(), taker) ==
             lacking_unlisted_.end()) {
    lacking_unlisted_.push_back(taker);
  }
}

double Auction::value(int taker, int token) const {
  return double{takers_.cost(taker, token)} + assignment_.price(token);
}

std::pair<double, int> Auction::take_lowest(int taker, Candidates& candidates) {
  for (;;) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const auto [before, token] = candidates.back();
    candidates.pop_back();
    const double now = value(taker, token);
    if (now <= before) return {now, token};
    push(candidates, {now, token});
  }
}

}  // namespace kvsim
