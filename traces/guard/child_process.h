#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

#include "traces/guard/guard_limits.h"

namespace kvsim {

/// How a child process ended.
struct ChildEnd {
  bool is_known = false;  ///< false: something else of this process has waited for all children
  bool timed_out = false;
  int status = 0;  ///< as of waitpid()
  std::chrono::duration<double> cpu_time{};
};

/// A copy of this process that runs one function and ends. It is quiet, has the limits, and none of
/// this process's handlers of signals. The destructor ends it.
class ChildProcess {
 public:
  /// `answer` returns what the child has to say, without zero bytes. Throws std::runtime_error with
  /// the reason if there can be no child.
  ChildProcess(const GuardLimits& limits, const std::function<std::string()>& answer);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits for the end. Afterwards answer() is what the child said, empty if it ended before.
  /// Throws what InterruptCheck::call() throws.
  ChildEnd wait();
  const std::string& answer() const { return answer_; }

 private:
  bool reap(int options, ChildEnd& end);
  bool read_some();

  std::chrono::milliseconds time_;
  pid_t child_ = -1;
  int pipe_ = -1;
  std::string answer_;
  bool is_complete_ = false;
};

}  // namespace kvsim
