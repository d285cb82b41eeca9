#include "sim/cache/candidate_queue.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace kvsim::candidate_queue_test {

TEST_CASE("candidates leave in the order of their scores, and of tokens among equals", "[cache]") {
  // Ascending scores, descending ones, and few scores at random, so that many tie.
  const int kind = GENERATE(0, 1, 2);
  std::mt19937 random(kind);
  const auto score_of = [&](std::int32_t token) {
    return kind == 0 ? token : kind == 1 ? -token : static_cast<int>(random() % 5);
  };
  CandidateQueue queue;
  std::set<Candidate> expected;
  for (std::int32_t token = 0; token < 500; ++token) {
    const Candidate arrived{static_cast<double>(score_of(token)), token};
    queue.push(arrived);
    expected.insert(arrived);
    for (int leaving = static_cast<int>(random() % 3); leaving > 0 && !queue.empty(); --leaving) {
      REQUIRE(queue.lowest() == *expected.begin());
      queue.pop();
      expected.erase(expected.begin());
    }
    REQUIRE(queue.empty() == expected.empty());
  }
  for (const Candidate& candidate : expected) {
    REQUIRE(queue.lowest() == candidate);
    queue.pop();
  }
  CHECK(queue.empty());
}

}  // namespace kvsim::candidate_queue_test
