#include "sim/cli/interrupt.h"

#include <csignal>

#include "traces/guard/interrupted.h"

namespace kvsim::cli {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

}  // namespace

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  static const InterruptCheck check([] {
    if (interrupted) throw Interrupted("interrupted");
  });
  return interrupted;
}

}  // namespace kvsim::cli
