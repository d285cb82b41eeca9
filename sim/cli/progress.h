#pragma once

#include <boost/timer/progress_display.hpp>
#include <cstddef>
#include <optional>

#include "sim/cli/options.h"

namespace kvsim::cli {

/// Progress of a long run on standard error: a bar on a terminal, otherwise a line per tenth; with
/// --verbose a line per unit, with --quiet nothing.
class Progress {
 public:
  Progress(std::size_t total, const po::variables_map& values);

  /// Counts one more finished unit.
  void advance(const UnitName& unit);

  std::size_t finished() const { return finished_; }

 private:
  std::size_t total_;
  std::size_t finished_ = 0;
  bool verbose_;
  bool lines_;
  std::optional<boost::timer::progress_display> bar_;
};

}  // namespace kvsim::cli
