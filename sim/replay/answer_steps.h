#pragma once

#include <span>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// The measured steps that predict a token of a span labelled `answer`: for tokens start .. end - 1
/// the steps start - 1 .. end - 2. Ascending, each once.
std::vector<int> answer_steps(std::span<const Span> spans, int first_measured);

}  // namespace kvsim
