#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "traces/guard/guard.h"
#include "traces/guard/interrupted.h"

namespace kvsim::traces_test::interrupted_guard_test {

using namespace std::chrono_literals;

constexpr GuardLimits kLimits{.cpu_time = 10s, .memory = 64 << 20, .time = 60s};

void guard(const std::function<void()>& read) {
  try_in_child("t.h5", "copy it again", kLimits, read);
}

/// A number that this process shares with its children.
class SharedNumber {
 public:
  SharedNumber()
      : number_(new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0)) {}
  ~SharedNumber() { munmap(number_, sizeof(std::atomic<int>)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;

  std::atomic<int>& operator*() const { return *number_; }

 private:
  std::atomic<int>* number_;
};

TEST_CASE("a signal of the user's to the child interrupts the run") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // This process survives what a terminal sends to both; the child has no handler of its own.
    const auto before = std::signal(signal, [](int) {});
    CHECK_THROWS_AS(guard([&] { raise(signal); }), Interrupted);
    std::signal(signal, before);
  }
}

TEST_CASE("the check of a thread ends the child that it waits for") {
  const SharedNumber child;
  const InterruptCheck check([&] {
    if (*child != 0) throw Interrupted("stop");
  });
  CHECK_THROWS_WITH(guard([&] {
                      *child = getpid();
                      while (true) pause();
                    }),
                    "stop");
  CHECK(kill(*child, 0) == -1);  // it is gone
}

TEST_CASE("the newest check of a thread counts, and other threads have their own") {
  int outer = 0;
  int inner = 0;
  const InterruptCheck first([&] { ++outer; });
  {
    const InterruptCheck second([&] { ++inner; });
    InterruptCheck::call();
    std::thread([] { InterruptCheck::call(); }).join();
  }
  InterruptCheck::call();
  CHECK(inner == 1);
  CHECK(outer == 1);
}

TEST_CASE("a child ends with the program that made it") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that this process can wait for a child of its child
  const SharedNumber grandchild;
  const pid_t program = fork();
  if (program == 0) {
    guard([&] {
      *grandchild = getpid();
      while (true) pause();
    });
    _exit(0);
  }
  while (*grandchild == 0) std::this_thread::sleep_for(1ms);
  kill(program, SIGKILL);
  int status = 0;
  CHECK(waitpid(program, &status, 0) == program);
  CHECK(waitpid(*grandchild, &status, 0) == *grandchild);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace kvsim::traces_test::interrupted_guard_test
