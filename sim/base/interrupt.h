#pragma once

#include <atomic>

#include "sim/base/errors.h"

namespace kvsim {

/// While it lives, poll_interrupt() in this thread looks at `flag`; null: at the flag that it
/// looked at before. The flag has to outlive the scope.
class InterruptScope {
 public:
  explicit InterruptScope(const std::atomic<bool>* flag);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

/// Throws Interrupted if the flag of this thread's InterruptScope is set. Loops that may take long
/// call it where an iteration takes far longer than a few nanoseconds. It decides no number: lines
/// that only call it do not count as a policy's code.
void poll_interrupt();

}  // namespace kvsim
