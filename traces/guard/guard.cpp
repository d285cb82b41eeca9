#include "traces/guard/guard.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <new>
#include <stdexcept>

#include "sim/base/errors.h"
#include "traces/guard/child_process.h"
#include "traces/guard/interrupted.h"
#include "traces/hdf5/place.h"

namespace kvsim {
namespace {

// The first character of the child's answer.
constexpr char kDone = '+';
constexpr char kDataError = 'd';
constexpr char kOutOfMemory = 'm';
constexpr char kFailure = 'f';

std::string answer_of(const std::function<void()>& read) {
  try {
    read();
    return {kDone};
  } catch (const DataError& error) {
    return kDataError + std::string(error.what());
  } catch (const std::bad_alloc&) {
    return {kOutOfMemory};
  } catch (const std::exception& error) {
    return kFailure + std::string(error.what());
  } catch (...) {
    return kFailure + std::string("an unknown error");
  }
}

/// What a user sends to a program and all its children.
bool is_sent_by_user(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

std::string reason_of(const ChildEnd& end, const GuardLimits& limits) {
  if (end.timed_out) {
    return fmt::format("no end after {} s", std::chrono::duration<double>(limits.time).count());
  }
  if (!end.is_known) return "an end without an answer";
  if (!WIFSIGNALED(end.status)) {
    return fmt::format("an end with status {}", WEXITSTATUS(end.status));
  }
  const int signal = WTERMSIG(end.status);
  if (signal == SIGXCPU || (signal == SIGKILL && end.cpu_time >= limits.cpu_time)) {
    return fmt::format("more than {} s of CPU time", limits.cpu_time.count());
  }
  return fmt::format("an end in signal {}{}", signal,
                     signal == SIGKILL ? ", as when a machine runs out of memory" : "");
}

}  // namespace

void try_in_child(const std::string& file, const std::string& fix, const GuardLimits& limits,
                  const std::function<void()>& read) {
  const Place place{file, ""};
  const std::string expected = "a file whose structure can be read";
  const auto child = [&] {
    try {
      return std::make_unique<ChildProcess>(limits, [&] { return answer_of(read); });
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format(
          "{}: no process can be started to read its structure: {}; end others or free memory",
          file, error.what()));
    }
  }();
  const ChildEnd end = child->wait();
  const std::string& answer = child->answer();
  if (answer.empty()) {
    if (WIFSIGNALED(end.status) && !end.timed_out && is_sent_by_user(WTERMSIG(end.status))) {
      throw Interrupted("interrupted");
    }
    place.fail(expected, reason_of(end, limits), fix);
  }
  switch (answer.front()) {
    case kDone:
      return;
    case kDataError:
      throw DataError(answer.substr(1));
    case kOutOfMemory:
      place.fail(expected, fmt::format("a need for more than {} MiB", limits.memory >> 20), fix);
    default:
      throw std::runtime_error(answer.substr(1));
  }
}

}  // namespace kvsim
