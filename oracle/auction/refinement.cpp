#include "oracle/auction/refinement.h"

#include <algorithm>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

// Values closer than this, relative to the scale and to themselves, count as equal, or rounding
// would raise prices for ever.
constexpr double kEqual = 1e-13;

// Bidders of a cycle that are looked for, per correction of the bidder so far.
constexpr std::size_t kLookBack = 4;

}  // namespace

Refinement::Refinement(const Bidders& bidders, Assignment& assignment, CandidateLists& lists)
    : bidders_(bidders),
      assignment_(assignment),
      lists_(lists),
      tolerance_(kEqual * bidders.scale()),
      tokens_(static_cast<std::size_t>(bidders.count())),
      highest_(static_cast<std::size_t>(bidders.count()), kNone),
      corrections_(static_cast<std::size_t>(bidders.count()), 0),
      raised_by_(static_cast<std::size_t>(bidders.num_tokens()), kNone),
      raised_cost_(static_cast<std::size_t>(bidders.num_tokens())),
      queue_(static_cast<std::size_t>(bidders.count())),
      is_queued_(static_cast<std::size_t>(bidders.count()), 0) {
  for (int token = 0; token < bidders.num_tokens(); ++token) {
    const int bidder = assignment.bidder_of(token);
    tokens_[static_cast<std::size_t>(bidder)].push_back(token);
    own_cost_.push_back(bidders.cost(bidder, token));
  }
}

bool Refinement::run(long most_corrections) {
  for (int bidder = 0; bidder < bidders_.count(); ++bidder) queue(bidder);
  for (long corrections = 0; queued_ > 0; ++corrections) {
    poll_interrupt();
    if (corrections == most_corrections) return false;
    const int bidder = queue_[first_];
    first_ = (first_ + 1) % queue_.size();
    --queued_;
    is_queued_[static_cast<std::size_t>(bidder)] = 0;
    correct(bidder);
  }
  return true;
}

void Refinement::correct(int bidder) {
  const std::vector<int>& own = tokens_[static_cast<std::size_t>(bidder)];
  if (own.empty()) return;
  ++corrections_[static_cast<std::size_t>(bidder)];
  const auto own_cost = [&](int token) {
    return double{own_cost_[static_cast<std::size_t>(token)]};
  };
  const auto own_value = [&](int token) { return own_cost(token) + assignment_.price(token); };
  int& highest = highest_[static_cast<std::size_t>(bidder)];
  highest = *std::max_element(own.begin(), own.end(),
                              [&](int a, int b) { return own_value(a) < own_value(b); });
  const double level = own_value(highest);
  for (const int token : own) {  // no other bidder wants them more for that
    if (token == highest || own_value(token) >= level) continue;
    assignment_.raise(token, level - own_cost(token));
  }
  const double limit = level - tolerance_ - kEqual * level;
  const auto visit = [&](int token, float cost, double value) {
    return raise(token, bidder, cost, value, level);
  };
  if (lists_.has_list(bidder)) {
    lists_.visit_below(bidder, limit, visit);
    return;
  }
  const std::span<const float> costs = bidders_.costs(bidder);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto token = static_cast<int>(i);
    if (assignment_.bidder_of(token) == bidder) continue;
    const double value = double{costs[i]} + assignment_.price(token);
    if (value < limit && !visit(token, costs[i], value)) return;
  }
}

bool Refinement::raise(int token, int bidder, float cost, double value, double level) {
  if (rotate(token, bidder, cost, value)) return false;
  assignment_.raise(token, assignment_.price(token) + (level - value));
  raised_by_[static_cast<std::size_t>(token)] = bidder;
  raised_cost_[static_cast<std::size_t>(token)] = cost;
  queue(assignment_.bidder_of(token));
  return true;
}

// Follows from the bidder's highest token to who raised it, to that bidder's highest token, and so
// on. If the token's own bidder is met, there is a cycle; whether it still saves anything is
// measured, because bidders may have lost the tokens for which they raised others.
bool Refinement::rotate(int token, int bidder, float cost, double value) {
  const int end = assignment_.bidder_of(token);
  moves_.clear();
  // Bidders that are corrected again and again are in a cycle; others need not look far.
  const std::size_t longest =
      std::min(tokens_.size(), kLookBack * corrections_[static_cast<std::size_t>(bidder)]);
  double saved = -value;
  for (int from = bidder; from != end;) {
    const int given = highest_[static_cast<std::size_t>(from)];
    if (given == kNone || assignment_.bidder_of(given) != from) return false;
    const auto place = static_cast<std::size_t>(given);
    const int to = raised_by_[place];
    if (to == kNone || to == from || moves_.size() >= longest) return false;
    saved += double{own_cost_[place]} - double{raised_cost_[place]};
    moves_.push_back({given, from, to, raised_cost_[place]});
    from = to;
  }
  saved += assignment_.price(token) + double{own_cost_[static_cast<std::size_t>(token)]};
  if (saved <= 0) return false;
  moves_.push_back({token, end, bidder, cost});
  for (const Move& move : moves_) {
    std::vector<int>& own = tokens_[static_cast<std::size_t>(move.from)];
    own.erase(std::find(own.begin(), own.end(), move.token));
    assignment_.release(move.token);
    lists_.lost(move.from, move.token);
  }
  for (const Move& move : moves_) {
    assignment_.give(move.token, move.to);
    tokens_[static_cast<std::size_t>(move.to)].push_back(move.token);
    own_cost_[static_cast<std::size_t>(move.token)] = move.cost;
    raised_by_[static_cast<std::size_t>(move.token)] = kNone;
    queue(move.to);
  }
  return true;
}

void Refinement::queue(int bidder) {
  if (is_queued_[static_cast<std::size_t>(bidder)] != 0) return;
  is_queued_[static_cast<std::size_t>(bidder)] = 1;
  queue_[(first_ + queued_) % queue_.size()] = bidder;
  ++queued_;
}

}  // namespace kvsim
