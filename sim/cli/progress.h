#pragma once

#include <boost/timer/progress_display.hpp>
#include <cstddef>
#include <optional>

namespace kvsim::cli {

/// How far a long run is, on standard error: a bar on a terminal, a line per tenth elsewhere.
class Progress {
 public:
  Progress(std::size_t total, bool quiet);

  /// One unit more is finished.
  void advance();

  std::size_t finished() const { return finished_; }

 private:
  std::size_t total_;
  std::size_t finished_ = 0;
  bool lines_;
  std::optional<boost::timer::progress_display> bar_;
};

}  // namespace kvsim::cli
