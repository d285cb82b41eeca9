#include "traces/guard/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "traces/guard/interrupted.h"
#include "traces/hdf5/hdf5_lock.h"

namespace kvsim {
namespace {

/// Holds back the signals of this thread, so that none meets a handler of the parent in the child.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Signals that are ignored stay so, as nohup has it, but for those that tell of crash and limit.
void reset_signal_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0) continue;
    const bool tells = signal == SIGXCPU || signal == SIGSEGV || signal == SIGBUS ||
                       signal == SIGABRT || signal == SIGFPE || signal == SIGILL;
    if (action.sa_handler == SIG_DFL || (action.sa_handler == SIG_IGN && !tells)) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
}

void be_quiet() {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing >= 0) dup2(nothing, standard);
  }
}

void write_all(int file, const char* text, std::size_t length) {
  while (length > 0) {
    const ssize_t some = write(file, text, length);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return;
    text += some;
    length -= static_cast<std::size_t>(some);
  }
}

/// A pipe above the three standard files, which the child gives up.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error(std::strerror(errno));
  for (int& end : ends) {
    if (end > STDERR_FILENO) continue;
    const int higher = fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(std::exchange(end, higher));
  }
  return ends;
}

/// No thread may use the library meanwhile, as the child could not wait for it to finish.
pid_t fork_with_library_idle() {
  const Hdf5Lock lock;
  return fork();
}

}  // namespace

ChildProcess::ChildProcess(const GuardLimits& limits, const std::function<std::string()>& answer)
    : time_(limits.time) {
  const auto [reading, writing] = make_pipe();
  const pid_t parent = getpid();
  const BlockedSignals blocked;
  child_ = fork_with_library_idle();
  if (child_ == 0) {
    reset_signal_handlers();
    limit_this_process(limits);
    if (getppid() != parent) _exit(1);  // it ended before this process could follow it
    be_quiet();
    blocked.restore();
    const std::string text = answer();
    write_all(writing, text.c_str(), text.size() + 1);
    _exit(0);
  }
  const int failure = errno;
  close(writing);
  if (child_ < 0) {
    close(reading);
    throw std::runtime_error(std::strerror(failure));
  }
  pipe_ = reading;
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  close(pipe_);
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  ChildEnd ignored;
  reap(0, ignored);
}

bool ChildProcess::reap(int options, ChildEnd& end) {
  rusage used{};
  pid_t found = -1;
  do {
    found = wait4(child_, &end.status, options, &used);
  } while (found < 0 && errno == EINTR);
  if (found == 0) return false;
  end.is_known = found == child_;
  const auto seconds = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  end.cpu_time = seconds(used.ru_utime) + seconds(used.ru_stime);
  child_ = -1;
  return true;
}

/// Returns false at the end of the answer.
bool ChildProcess::read_some() {
  std::array<char, 4096> text{};
  const ssize_t some = read(pipe_, text.data(), text.size());
  if (some < 0) return errno == EAGAIN || errno == EINTR;
  const std::size_t length = strnlen(text.data(), static_cast<std::size_t>(some));
  answer_.append(text.data(), length);
  is_complete_ = length < static_cast<std::size_t>(some);
  return some > 0 && !is_complete_;
}

// The end of the file alone would not do: another child, of another thread, may have the pipe, too.
ChildEnd ChildProcess::wait() {
  constexpr int kPause = 50;  // milliseconds
  const auto deadline = std::chrono::steady_clock::now() + time_;
  ChildEnd end;
  bool has_ended = false;
  for (bool is_open = true; is_open;) {
    InterruptCheck::call();
    if (std::chrono::steady_clock::now() > deadline) {
      end.timed_out = true;
      kill(child_, SIGKILL);
      break;
    }
    pollfd waiting{.fd = pipe_, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, kPause) > 0) {
      is_open = read_some();
    } else if (reap(WNOHANG, end)) {
      while (poll(&waiting, 1, 0) > 0 && read_some()) {
      }
      has_ended = true;
      break;
    }
  }
  if (!has_ended) reap(0, end);
  if (!is_complete_) answer_.clear();
  return end;
}

}  // namespace kvsim
