#include "sim/replay/answer_steps.h"

#include <catch2/catch.hpp>

namespace kvsim::answer_steps_test {

TEST_CASE("the steps of an answer are those before its tokens", "[answers]") {
  const std::vector<Span> spans = {{2, 5, "answer"}, {7, 9, "question"}};
  CHECK(answer_steps(spans, 0) == std::vector<int>{1, 2, 3});
}

TEST_CASE("a step that several answers ask for counts once", "[answers]") {
  const std::vector<Span> spans = {{6, 8, "answer"}, {3, 7, "answer"}};
  CHECK(answer_steps(spans, 0) == std::vector<int>{2, 3, 4, 5, 6});
}

TEST_CASE("no step predicts the first token, and none of the prompt counts", "[answers]") {
  const std::vector<Span> spans = {{0, 2, "answer"}, {5, 8, "answer"}};
  CHECK(answer_steps(spans, 0) == std::vector<int>{0, 4, 5, 6});
  CHECK(answer_steps(spans, 6) == std::vector<int>{6});
  CHECK(answer_steps(spans, 7).empty());
}

}  // namespace kvsim::answer_steps_test
