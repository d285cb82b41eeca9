#include "oracle/auction/refinement.h"

#include <algorithm>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

// Values closer than this, relative to the scale and to themselves, count as equal, or rounding
// would raise prices for ever.
constexpr double kEqual = 1e-13;

// Takers of a cycle that are looked for, per correction of the taker so far.
constexpr std::size_t kLookBack = 4;

}  // namespace

Refinement::Refinement(const Takers& takers, Assignment& assignment, CandidateLists& lists)
    : takers_(takers),
      assignment_(assignment),
      lists_(lists),
      tolerance_(kEqual * takers.scale()),
      tokens_(static_cast<std::size_t>(takers.count())),
      highest_(static_cast<std::size_t>(takers.count()), kNone),
      corrections_(static_cast<std::size_t>(takers.count()), 0),
      raised_by_(static_cast<std::size_t>(takers.num_tokens()), kNone),
      raised_cost_(static_cast<std::size_t>(takers.num_tokens())),
      queue_(static_cast<std::size_t>(takers.count())),
      is_queued_(static_cast<std::size_t>(takers.count()), 0) {
  for (int token = 0; token < takers.num_tokens(); ++token) {
    const int taker = assignment.taker_of(token);
    tokens_[static_cast<std::size_t>(taker)].push_back(token);
    own_cost_.push_back(takers.cost(taker, token));
  }
}

bool Refinement::run(long most_corrections) {
  for (int taker = 0; taker < takers_.count(); ++taker) queue(taker);
  for (long corrections = 0; queued_ > 0; ++corrections) {
    poll_interrupt();
    if (corrections == most_corrections) return false;
    const int taker = queue_[first_];
    first_ = (first_ + 1) % queue_.size();
    --queued_;
    is_queued_[static_cast<std::size_t>(taker)] = 0;
    correct(taker);
  }
  return true;
}

void Refinement::correct(int taker) {
  const std::vector<int>& own = tokens_[static_cast<std::size_t>(taker)];
  if (own.empty()) return;
  ++corrections_[static_cast<std::size_t>(taker)];
  const auto own_cost = [&](int token) {
    return double{own_cost_[static_cast<std::size_t>(token)]};
  };
  const auto own_value = [&](int token) { return own_cost(token) + assignment_.price(token); };
  int& highest = highest_[static_cast<std::size_t>(taker)];
  highest = *std::max_element(own.begin(), own.end(),
                              [&](int a, int b) { return own_value(a) < own_value(b); });
  const double level = own_value(highest);
  for (const int token : own) {  // no other taker wants them more for that
    if (token == highest || own_value(token) >= level) continue;
    assignment_.raise(token, level - own_cost(token));
  }
  const double limit = level - tolerance_ - kEqual * level;
  const auto visit = [&](int token, float cost, double value) {
    return raise(token, taker, cost, value, level);
  };
  if (lists_.has_list(taker)) {
    lists_.visit_below(taker, limit, visit);
    return;
  }
  const std::span<const float> costs = takers_.costs(taker);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto token = static_cast<int>(i);
    if (assignment_.taker_of(token) == taker) continue;
    const double value = double{costs[i]} + assignment_.price(token);
    if (value < limit && !visit(token, costs[i], value)) return;
  }
}

bool Refinement::raise(int token, int taker, float cost, double value, double level) {
  if (rotate(token, taker, cost, value)) return false;
  assignment_.raise(token, assignment_.price(token) + (level - value));
  raised_by_[static_cast<std::size_t>(token)] = taker;
  raised_cost_[static_cast<std::size_t>(token)] = cost;
  queue(assignment_.taker_of(token));
  return true;
}

// Follows from the taker's highest token to who raised it, to that taker's highest token, and so
// on. If the token's own taker is met, there is a cycle; whether it still saves anything is
// measured, because takers may have lost the tokens for which they raised others.
bool Refinement::rotate(int token, int taker, float cost, double value) {
  const int end = assignment_.taker_of(token);
  moves_.clear();
  // Takers that are corrected again and again are in a cycle; others need not look far.
  const std::size_t longest =
      std::min(tokens_.size(), kLookBack * corrections_[static_cast<std::size_t>(taker)]);
  double saved = -value;
  for (int from = taker; from != end;) {
    const int given = highest_[static_cast<std::size_t>(from)];
    if (given == kNone || assignment_.taker_of(given) != from) return false;
    const auto place = static_cast<std::size_t>(given);
    const int to = raised_by_[place];
    if (to == kNone || to == from || moves_.size() >= longest) return false;
    saved += double{own_cost_[place]} - double{raised_cost_[place]};
    moves_.push_back({given, from, to, raised_cost_[place]});
    from = to;
  }
  saved += assignment_.price(token) + double{own_cost_[static_cast<std::size_t>(token)]};
  if (saved <= 0) return false;
  moves_.push_back({token, end, taker, cost});
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

void Refinement::queue(int taker) {
  if (is_queued_[static_cast<std::size_t>(taker)] != 0) return;
  is_queued_[static_cast<std::size_t>(taker)] = 1;
  queue_[(first_ + queued_) % queue_.size()] = taker;
  ++queued_;
}

}  // namespace kvsim
