#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "sim/cli/options.h"

namespace kvsim::cli {

/// Progress of a long run on standard error, with the time that remains: on a terminal a bar,
/// otherwise lines, at most one per tenth and per second, at least one a minute; with --verbose a
/// line per unit, with
/// --quiet nothing.
class Progress {
 public:
  /// `what` is counted, as in "40 of 64 units"; `done` of the total were finished before.
  Progress(std::size_t total, std::string what, const po::variables_map& values,
           std::size_t done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts `count` more as finished, which belong to `unit`.
  void advance(const UnitName& unit, std::size_t count = 1);

  /// Says how far the run is.
  void set(std::size_t finished);

  /// "40 of 64 units"
  std::string state() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Style { silent, lines, bar, verbose };

  void show();
  std::string remaining() const;

  std::size_t total_;
  std::size_t before_;
  std::size_t finished_;
  std::string what_;
  Style style_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_at_ = start_;
  std::size_t shown_tenth_ = 0;
  std::size_t shown_width_ = 0;  ///< of the bar's line; 0: there is none
};

/// "about 3 min left"
std::string time_left(double seconds);

}  // namespace kvsim::cli
