#pragma once

#include <functional>

#include "sim/base/errors.h"

namespace kvsim {

/// While it lives, the thread that made it calls `check` some twenty times a second wherever it
/// waits for a child process. `check` throws if the user ended the run. The newest one counts.
class InterruptCheck {
 public:
  explicit InterruptCheck(std::function<void()> check);
  ~InterruptCheck();
  InterruptCheck(const InterruptCheck&) = delete;
  InterruptCheck& operator=(const InterruptCheck&) = delete;

  /// Calls the check of this thread, if there is one.
  static void call();

 private:
  std::function<void()> check_;
  const InterruptCheck* outer_;
};

}  // namespace kvsim
