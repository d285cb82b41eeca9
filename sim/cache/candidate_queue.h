#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace kvsim {

/// A token that may be evicted, with a score that does not change.
struct Candidate {
  double score;
  std::int32_t token;

  bool operator==(const Candidate&) const = default;
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : token < other.token;
  }
  bool operator>(const Candidate& other) const { return other < *this; }
};

/// Candidates, the lowest score first and the lower token among equals. Those that arrive in this
/// order, as with scores by age, take constant time, others logarithmic time.
class CandidateQueue {
 public:
  void push(Candidate candidate) {
    if (ascending_.empty() || ascending_.back() < candidate) {
      ascending_.push_back(candidate);
    } else {
      others_.push(candidate);
    }
  }

  bool empty() const { return ascending_.empty() && others_.empty(); }

  const Candidate& lowest() const {
    return is_ascending_next() ? ascending_[first_] : others_.top();
  }

  void pop() {
    if (!is_ascending_next()) return others_.pop();
    ++first_;
    if (2 * first_ < ascending_.size()) return;
    ascending_.erase(ascending_.begin(), ascending_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

 private:
  bool is_ascending_next() const {
    return !ascending_.empty() && (others_.empty() || ascending_[first_] < others_.top());
  }

  std::vector<Candidate> ascending_;
  std::size_t first_ = 0;  // of these; below their number, or 0
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> others_;
};

}  // namespace kvsim
