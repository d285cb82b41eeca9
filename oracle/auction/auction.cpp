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

Auction::Auction(const Bidders& bidders, Assignment& assignment, CandidateLists& lists,
                 long most_taken)
    : bidders_(bidders), assignment_(assignment), lists_(lists), most_taken_(most_taken) {
  for (int bidder = 0; bidder < bidders.count(); ++bidder) {
    if (lists.has_list(bidder)) continue;
    Candidates& candidates = candidates_[bidder];
    for (std::size_t token = 0; token < bidders.num_choices(bidder); ++token) {
      const auto place = static_cast<int>(token);
      if (assignment.bidder_of(place) != bidder)
        candidates.emplace_back(value(bidder, place), place);
    }
    std::make_heap(candidates.begin(), candidates.end(), std::greater<>());
  }
}

bool Auction::run(double epsilon) {
  release_worse_than(epsilon);
  for (;;) {
    poll_interrupt();
    if (taken_ > most_taken_) return false;
    if (!lacking_.empty()) {
      const int bidder = lacking_.back();
      lacking_.pop_back();
      while (assignment_.missing(bidder) > 0) bid(bidder, epsilon);
    } else if (!lacking_unlisted_.empty()) {
      const int bidder = lacking_unlisted_.back();
      lacking_unlisted_.pop_back();
      if (assignment_.missing(bidder) > 0) bid_without_list(bidder, epsilon);
    } else {
      return true;
    }
  }
}

void Auction::release_worse_than(double epsilon) {
  std::vector<double> most(static_cast<std::size_t>(bidders_.count()));
  for (int bidder = bidders_.count() - 1; bidder >= 0; --bidder) {
    poll_interrupt();
    double best = 0;
    if (lists_.has_list(bidder)) {
      best = lists_.best_two(bidder, kStale * epsilon).value;
    } else {
      Candidates& candidates = candidates_.at(bidder);
      const auto lowest = take_lowest(bidder, candidates);
      push(candidates, lowest);
      best = lowest.first;
    }
    most[static_cast<std::size_t>(bidder)] = best + epsilon;
  }
  for (int token = 0; token < bidders_.num_tokens(); ++token) {
    const int bidder = assignment_.bidder_of(token);
    if (bidder == Assignment::kNobody) continue;
    if (value(bidder, token) <= most[static_cast<std::size_t>(bidder)]) continue;
    assignment_.release(token);
    lost(bidder, token);
  }
  for (int bidder = bidders_.count() - 1; bidder >= 0; --bidder) {
    if (assignment_.missing(bidder) > 0) queue(bidder);
  }
}

void Auction::bid(int bidder, double epsilon) {
  const Offer offer = lists_.best_two(bidder, kStale * epsilon);
  take(offer.token, bidder,
       assignment_.price(offer.token) + (offer.next_value - offer.value) + epsilon);
}

// The last of the lowest sets the price of the others, and stays a candidate.
void Auction::bid_without_list(int bidder, double epsilon) {
  Candidates& candidates = candidates_.at(bidder);
  lowest_.clear();
  for (int more = assignment_.missing(bidder); more >= 0; --more) {
    lowest_.push_back(take_lowest(bidder, candidates));
  }
  const double level = lowest_.back().first + epsilon;
  push(candidates, lowest_.back());
  lowest_.pop_back();
  for (const auto& [value, token] : lowest_) {
    take(token, bidder, assignment_.price(token) + (level - value));
  }
}

void Auction::take(int token, int bidder, double price) {
  ++taken_;
  const int before = assignment_.bidder_of(token);
  assignment_.give(token, bidder);
  assignment_.raise(token, price);
  if (before == Assignment::kNobody) return;
  lost(before, token);
  queue(before);
}

void Auction::lost(int bidder, int token) {
  if (lists_.has_list(bidder)) {
    lists_.lost(bidder, token);
  } else {
    push(candidates_.at(bidder), {value(bidder, token), token});
  }
}

void Auction::queue(int bidder) {
  if (lists_.has_list(bidder)) {
    lacking_.push_back(bidder);
  } else if (std::find(lacking_unlisted_.begin(), lacking_unlisted_.end(), bidder) ==
             lacking_unlisted_.end()) {
    lacking_unlisted_.push_back(bidder);
  }
}

double Auction::value(int bidder, int token) const {
  return double{bidders_.cost(bidder, token)} + assignment_.price(token);
}

std::pair<double, int> Auction::take_lowest(int bidder, Candidates& candidates) {
  for (;;) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const auto [before, token] = candidates.back();
    candidates.pop_back();
    const double now = value(bidder, token);
    if (now <= before) return {now, token};
    push(candidates, {now, token});
  }
}

}  // namespace kvsim
