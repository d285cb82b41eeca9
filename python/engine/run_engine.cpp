#include "python/engine/run_engine.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "traces/guard/interrupted.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

constexpr std::chrono::milliseconds kPause(100);

/// A thread that runs the work and says when it has ended.
class Engine {
 public:
  Engine(const std::function<void(Work&)>& work, Work& state)
      : thread_([this, &work, &state] { run(work, state); }) {}

  /// Waits for the end for a while, without the GIL. Returns whether it has come.
  bool wait() {
    const nb::gil_scoped_release release;
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPause, [this] { return ended_; })) return false;
    lock.unlock();
    thread_.join();
    return true;
  }

  /// What the work threw, if anything. After its end.
  const std::exception_ptr& failure() const { return failure_; }

 private:
  void run(const std::function<void(Work&)>& work, Work& state) {
    const InterruptCheck check([&state] {
      if (state.interrupted) throw Interrupted("interrupted");
    });
    try {
      work(state);
    } catch (...) {
      failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last, as it uses the others
};

}  // namespace

void run_engine(const nb::object& progress, const std::function<void(Work&)>& work) {
  Work state;
  const auto report = [&] {
    const std::size_t total = state.total;
    if (!progress.is_none() && total > 0) progress(state.done.load(), total);
  };
  std::exception_ptr raised;
  Engine engine(work, state);
  while (!engine.wait()) {
    if (raised) continue;
    try {
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      report();
    } catch (...) {
      raised = std::current_exception();
      state.interrupted = true;
    }
  }
  if (!raised && !engine.failure()) report();
  if (raised) std::rethrow_exception(raised);
  if (engine.failure()) std::rethrow_exception(engine.failure());
}

}  // namespace kvsim::python
