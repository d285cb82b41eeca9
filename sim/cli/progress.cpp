#include "sim/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace kvsim::cli {
namespace {

constexpr double kSecondsPerMinute = 60;
constexpr double kMinutesPerHour = 60;

}  // namespace

Progress::Progress(std::size_t total, std::string what, const po::variables_map& values,
                   std::size_t done)
    : total_(total), before_(done), finished_(done), what_(std::move(what)) {
  if (values.count("quiet") > 0 || total == done) {
    style_ = Style::silent;
  } else if (values.count("verbose") > 0) {
    style_ = Style::verbose;
  } else {
    style_ = isatty(STDERR_FILENO) != 0 ? Style::bar : Style::lines;
  }
  shown_tenth_ = total == 0 ? 0 : 10 * done / total;
  if (style_ == Style::bar) show();
}

Progress::~Progress() {
  if (shown_width_ > 0) std::cerr << std::endl;
}

void Progress::advance(const UnitName& unit, std::size_t count) {
  if (style_ == Style::verbose) {
    std::cerr << fmt::format("kvsim: finished {} layer {} KV head {}\n", unit.sequence, unit.layer,
                             unit.kv_head);
  }
  set(finished_ + count);
}

void Progress::set(std::size_t finished) {
  finished_ = finished;
  const std::chrono::duration<double> since = Clock::now() - shown_at_;
  const std::size_t tenth = 10 * finished_ / std::max<std::size_t>(total_, 1);
  constexpr double kRedraw = 0.1;
  constexpr double kNextLine = 1;
  const bool redraws = since.count() >= kRedraw || finished_ == total_;
  const bool adds_line =
      since.count() >= kSecondsPerMinute || (since.count() >= kNextLine && tenth > shown_tenth_);
  if ((style_ == Style::bar && redraws) || (style_ == Style::lines && adds_line)) {
    show();
    shown_at_ = Clock::now();
    shown_tenth_ = tenth;
  }
}

std::string Progress::state() const { return fmt::format("{} of {} {}", finished_, total_, what_); }

void Progress::show() {
  if (style_ == Style::lines) {
    std::cerr << fmt::format("kvsim: {}{}\n", state(), remaining());
    return;
  }
  constexpr std::size_t kBarWidth = 24;
  const std::size_t filled = kBarWidth * finished_ / total_;
  const std::string line = fmt::format("kvsim: [{:=<{}}{:{}}] {}{}", "", filled, "",
                                       kBarWidth - filled, state(), remaining());
  // Blanks cover what is left of a longer line.
  std::cerr << fmt::format("\r{:<{}}", line, shown_width_) << std::flush;
  shown_width_ = std::max(shown_width_, line.size());
}

/// Assumes that what remains takes as long as what this run has done.
std::string Progress::remaining() const {
  if (finished_ == before_ || finished_ == total_) return "";
  const std::chrono::duration<double> spent = Clock::now() - start_;
  return ", " + time_left(spent.count() / static_cast<double>(finished_ - before_) *
                          static_cast<double>(total_ - finished_));
}

std::string time_left(double seconds) {
  constexpr double kShowSeconds = 90;
  if (seconds < kShowSeconds) return fmt::format("about {:.0f} s left", std::ceil(seconds));
  const auto minutes = std::llround(seconds / kSecondsPerMinute);
  if (minutes < kMinutesPerHour) return fmt::format("about {} min left", minutes);
  const auto hours = minutes / std::llround(kMinutesPerHour);
  return fmt::format("about {} h {} min left", hours, minutes - 60 * hours);
}

}  // namespace kvsim::cli
