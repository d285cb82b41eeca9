#include "sim/replay/answer_steps.h"

#include <algorithm>
#include <set>

namespace kvsim {

std::vector<int> answer_steps(std::span<const Span> spans, int first_measured) {
  std::set<int> steps;
  for (const Span& span : spans) {
    if (span.label != "answer") continue;
    for (int token = span.start; token < span.end; ++token) {
      if (token - 1 >= first_measured) steps.insert(token - 1);
    }
  }
  return {steps.begin(), steps.end()};
}

}  // namespace kvsim
