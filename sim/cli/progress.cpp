#include "sim/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

namespace kvsim::cli {

Progress::Progress(std::size_t total, const po::variables_map& values)
    : total_(total), verbose_(values.count("verbose") > 0), lines_(false) {
  if (values.count("quiet") > 0 || verbose_ || total == 0) return;
  if (isatty(STDERR_FILENO) != 0) {
    bar_.emplace(total, std::cerr);
  } else {
    lines_ = true;
  }
}

void Progress::advance(const UnitName& unit) {
  ++finished_;
  if (verbose_) {
    std::cerr << fmt::format("kvsim: finished {} layer {} KV head {}\n", unit.sequence, unit.layer,
                             unit.kv_head);
  }
  if (bar_) ++*bar_;
  const bool another_tenth = finished_ * 10 / total_ > (finished_ - 1) * 10 / total_;
  if (lines_ && another_tenth) {
    std::cerr << fmt::format("kvsim: {} of {} units\n", finished_, total_);
  }
}

}  // namespace kvsim::cli
