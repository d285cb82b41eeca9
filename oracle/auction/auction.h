#pragma once

#include <map>
#include <utility>
#include <vector>

#include "oracle/auction/assignment.h"
#include "oracle/auction/candidate_lists.h"

namespace kvsim {

/// An auction (Bertsekas, "The auction algorithm", Annals of Operations Research 14, 1988): each
/// taker that lacks a token takes the one that it values most and raises its price until the next
/// one is as good, and by epsilon more. When nobody lacks one, no exchange of a taker's tokens
/// saves more than a few epsilon.
class Auction {
 public:
  Auction(const Takers& takers, Assignment& assignment, CandidateLists& lists);

  /// Releases what its taker would exchange for a gain of more than epsilon, and lets takers bid.
  /// Throws Interrupted.
  void run(double epsilon);

 private:
  void release_worse_than(double epsilon);
  void bid(int taker, double epsilon);
  /// All that the taker lacks, at once.
  void bid_without_list(int taker, double epsilon);
  void take(int token, int taker, double price);
  void lost(int taker, int token);
  void queue(int taker);
  double value(int taker, int token) const;

  /// Of a taker without a list, the tokens that it does not have, the lowest value on top. Values
  /// only rise, so they are computed anew only when they come to the top.
  using Candidates = std::vector<std::pair<double, int>>;
  std::pair<double, int> take_lowest(int taker, Candidates& candidates);

  const Takers& takers_;
  Assignment& assignment_;
  CandidateLists& lists_;
  std::vector<int> lacking_;              // takers with lists that lack tokens, the next at the end
  std::vector<int> lacking_unlisted_;     // those without
  std::map<int, Candidates> candidates_;  // per taker without a list, heaps
  std::vector<std::pair<double, int>> lowest_;
};

}  // namespace kvsim
