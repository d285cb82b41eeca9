#pragma once

#include <vector>

#include "oracle/auction/assignment.h"
#include "oracle/auction/candidate_lists.h"

namespace kvsim {

/// Makes an assignment optimal that an auction left within epsilon of it: the method of label
/// correction for shortest paths, with prices as labels. The level of a bidder is the highest value
/// among its tokens. Every token that it values less is raised to its level; if that closes a cycle
/// of bidders that each raised a token of the next, each takes the token that it raised, which
/// lowers the loss.
class Refinement {
 public:
  Refinement(const Bidders& bidders, Assignment& assignment, CandidateLists& lists);

  /// Whether it came to an end within `most_corrections` of bidders: then no bidder values a token
  /// less than its own. Throws Interrupted.
  bool run(long most_corrections);

 private:
  void correct(int bidder);
  /// Returns false if a cycle was found, and rotated, so that the bidder has other tokens now.
  bool raise(int token, int bidder, float cost, double value, double level);
  bool rotate(int token, int bidder, float cost, double value);
  void queue(int bidder);

  static constexpr int kNone = -1;

  struct Move {
    int token;
    int from;
    int to;
    float cost;  ///< to whom it goes
  };

  const Bidders& bidders_;
  Assignment& assignment_;
  CandidateLists& lists_;
  double tolerance_;
  std::vector<std::vector<int>> tokens_;  // per bidder
  std::vector<int> highest_;              // per bidder: its token that set its level
  std::vector<std::size_t> corrections_;  // per bidder, so far
  std::vector<float> own_cost_;           // per token: to its bidder
  std::vector<int> raised_by_;            // per token
  std::vector<float> raised_cost_;        // per token: to who raised it
  std::vector<int> queue_;                // bidders, a ring
  std::size_t first_ = 0;
  std::size_t queued_ = 0;
  std::vector<char> is_queued_;
  std::vector<Move> moves_;  // of the cycle that is looked for
};

}  // namespace kvsim
