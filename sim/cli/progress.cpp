#include "sim/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

namespace kvsim::cli {

Progress::Progress(std::size_t total, bool quiet) : total_(total), lines_(false) {
  if (quiet || total == 0) return;
  if (isatty(STDERR_FILENO) != 0) {
    bar_.emplace(total, std::cerr);
  } else {
    lines_ = true;
  }
}

void Progress::advance() {
  ++finished_;
  if (bar_) ++*bar_;
  const bool another_tenth = finished_ * 10 / total_ > (finished_ - 1) * 10 / total_;
  if (lines_ && another_tenth) {
    std::cerr << fmt::format("kvsim: {} of {} units\n", finished_, total_);
  }
}

}  // namespace kvsim::cli
