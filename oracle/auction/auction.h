#pragma once

#include <map>
#include <utility>
#include <vector>

#include "oracle/auction/assignment.h"
#include "oracle/auction/candidate_lists.h"

namespace kvsim {

/// An auction (Bertsekas, "The auction algorithm", Annals of Operations Research 14, 1988): each
/// bidder that lacks a token takes the one that it values most and raises its price until the next
/// one is as good, and by epsilon more. When nobody lacks one, no exchange of a bidder's tokens
/// saves more than a few epsilon.
class Auction {
 public:
  /// A run gives up once more than `most_taken` tokens were taken in all runs.
  Auction(const Bidders& bidders, Assignment& assignment, CandidateLists& lists, long most_taken);

  /// Releases what its bidder would exchange for a gain of more than epsilon, and lets bidders bid.
  /// Returns whether it came to an end. Throws Interrupted.
  bool run(double epsilon);

 private:
  void release_worse_than(double epsilon);
  void bid(int bidder, double epsilon);
  /// All that the bidder lacks, at once.
  void bid_without_list(int bidder, double epsilon);
  void take(int token, int bidder, double price);
  void lost(int bidder, int token);
  void queue(int bidder);
  double value(int bidder, int token) const;

  /// Of a bidder without a list, the tokens that it does not have, the lowest value on top. Values
  /// only rise, so they are computed anew only when they come to the top.
  using Candidates = std::vector<std::pair<double, int>>;
  std::pair<double, int> take_lowest(int bidder, Candidates& candidates);

  const Bidders& bidders_;
  Assignment& assignment_;
  CandidateLists& lists_;
  std::vector<int> lacking_;           // bidders with lists that lack tokens, the next at the end
  std::vector<int> lacking_unlisted_;  // those without
  std::map<int, Candidates> candidates_;  // per bidder without a list, heaps
  std::vector<std::pair<double, int>> lowest_;
  long most_taken_;
  long taken_ = 0;  // tokens, in all runs
};

}  // namespace kvsim
