#pragma once

#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// An answer that the text asks for, and where the text states it.
struct AskedFact {
  std::vector<int> steps;   ///< measured steps that predict a token of the answer, ascending
  std::vector<int> needle;  ///< tokens of the needle that states it; empty: none does
  std::vector<int> answer;  ///< of these, the tokens that are equal to the answer's
};

/// One per span labelled `answer` that a measured step predicts, in the order of the spans. A trace
/// has labels alone, so the tokens say what belongs together: the needle of an answer is a span
/// labelled `needle` that ends before the answer is asked for and contains the answer's tokens, one
/// after the other. Of several it is the one that contains most of the tokens of the question, the
/// span labelled `question` that ends last before the answer; then the latest. Of several places
/// in the needle the last counts. For a unit with token ids.
std::vector<AskedFact> asked_facts(const Unit& unit, int first_measured);

}  // namespace kvsim
