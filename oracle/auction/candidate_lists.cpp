#include "oracle/auction/candidate_lists.h"

#include <algorithm>
#include <limits>

#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

constexpr float kNoLimit = std::numeric_limits<float>::infinity();

}  // namespace

CandidateLists::CandidateLists(const Bidders& bidders, const Assignment& assignment)
    : bidders_(bidders),
      assignment_(assignment),
      lists_(bidders.count()),
      narrow_(static_cast<std::size_t>(bidders.count()) * kNarrow),
      wide_tokens_(static_cast<std::size_t>(bidders.count()) * kWide),
      wide_costs_(static_cast<std::size_t>(bidders.count()) * kWide),
      found_tokens_(bidders.num_tokens()),
      found_sums_(bidders.num_tokens()) {}

// Lists that were filled just now are taken as they are: of values that equal the limit they hold
// only some.
Offer CandidateLists::best_two(int bidder, double tolerance) {
  for (int fills = 0;; ++fills) {
    const List& list = lists_[bidder];
    const Candidate* const candidates = narrow(bidder);
    Offer offer{.value = kNoLimit, .next_value = kNoLimit};
    bool none_is_lower = false;
    for (int i = 0; i < list.size; ++i) {
      none_is_lower = candidates[i].least >= offer.next_value;
      if (none_is_lower) break;
      if (assignment_.bidder_of(candidates[i].token) == bidder) continue;
      const double of_token = value(candidates[i]);
      if (of_token < offer.value) {
        offer = {candidates[i].token, of_token, offer.value};
      } else {
        offer.next_value = std::min(offer.next_value, of_token);
      }
    }
    if (none_is_lower || offer.next_value <= list.limit + tolerance || fills == 2) return offer;
    if (fills == 1 || list.wide_size == 0) fill_wide(bidder);
    if (list.wide_size > 0) fill_narrow(bidder);
  }
}

void CandidateLists::lost(int bidder, int token) {
  if (!has_list(bidder) || bidders_.units(bidder) == 1) return;
  const double of_token = double{bidders_.cost(bidder, token)} + assignment_.price(token);
  lists_[bidder].limit =
      std::min(lists_[bidder].limit, static_cast<float>(of_token) * kRoundedBelow);
}

// From the tokens that are in the list, or at first in that of the next bidder, whose costs are
// similar. Other tokens are below the limit too, more often too many than too few.
float CandidateLists::likely_limit(int bidder) {
  const std::size_t end = bidders_.num_choices(bidder);
  const int source = lists_[bidder].wide_size > 0 ? bidder : bidder + 1;
  if (end <= kWide || !has_list(source)) return kNoLimit;
  const auto size = static_cast<std::size_t>(lists_[source].wide_size);
  const std::int32_t* const tokens = wide_tokens(source);
  std::size_t left = 0;
  if (source == bidder) {
    left = size;
    add_prices(wide_costs(source), tokens, size, assignment_.prices_below(), sums_.data());
  } else {
    for (std::size_t i = 0; i < size; ++i) {
      if (static_cast<std::size_t>(tokens[i]) >= end) continue;
      sums_[left++] = bidders_.cost(bidder, tokens[i]) + assignment_.prices_below()[tokens[i]];
    }
  }
  const std::size_t wanted = least_wide(bidder);
  if (left < wanted) return kNoLimit;
  return limit_of_rank({sums_.data(), left}, wanted, wanted + kNarrow);
}

std::size_t CandidateLists::find_below(int bidder, float limit) {
  return find_at_most(bidders_.costs(bidder), assignment_.prices_below(), limit,
                      found_tokens_.data(), found_sums_.data());
}

void CandidateLists::fill_wide(int bidder) {
  float limit = likely_limit(bidder);
  std::size_t found = find_below(bidder, limit);
  if (found < least_wide(bidder)) {
    limit = kNoLimit;
    found = find_below(bidder, limit);
  }
  if (found > kWide) {
    const float lower = limit_of_rank({found_sums_.data(), found}, kWide * 3 / 4, kWide);
    // Where many values equal the limit, only the first of them fit; all lower ones do.
    const auto end = found_sums_.begin() + static_cast<std::ptrdiff_t>(found);
    auto equal = static_cast<std::ptrdiff_t>(kWide) -
                 std::count_if(found_sums_.begin(), end, [&](float sum) { return sum < lower; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < found; ++i) {
      if (found_sums_[i] > lower || (found_sums_[i] == lower && equal-- <= 0)) continue;
      found_tokens_[kept++] = found_tokens_[i];
    }
    limit = lower;
    found = kept;
  }
  for (std::size_t i = 0; i < found; ++i) {
    wide_tokens(bidder)[i] = found_tokens_[i];
    wide_costs(bidder)[i] = bidders_.cost(bidder, found_tokens_[i]);
  }
  lists_[bidder].wide_size = static_cast<std::int32_t>(found);
  lists_[bidder].wide_limit = found == bidders_.num_choices(bidder) ? kNoLimit : limit;
}

void CandidateLists::fill_narrow(int bidder) {
  List& list = lists_[bidder];
  const auto size = static_cast<std::size_t>(list.wide_size);
  add_prices(wide_costs(bidder), wide_tokens(bidder), size, assignment_.prices_below(),
             sums_.data());
  if (bidders_.units(bidder) > 1) {
    leave_out(assignment_.bidders(), bidder, {wide_tokens(bidder), size}, sums_.data());
  }
  const std::size_t padded = (size + kValuesTogether - 1) / kValuesTogether * kValuesTogether;
  std::fill(sums_.data() + size, sums_.data() + padded, kNoLimit);
  const Lowest lowest = find_lowest({sums_.data(), padded}, list.wide_limit, places_.data());
  Candidate* const candidates = narrow(bidder);
  for (std::size_t i = 0; i < lowest.count; ++i) {
    const auto place = static_cast<std::size_t>(places_[i]);
    candidates[i] = {sums_[place] * kRoundedBelow, wide_costs(bidder)[place],
                     wide_tokens(bidder)[place]};
  }
  list.size = static_cast<std::int32_t>(lowest.count);
  list.limit = lowest.limit * kRoundedBelow;
}

}  // namespace kvsim
