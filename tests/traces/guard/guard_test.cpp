#include "traces/guard/guard.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>
#include <vector>

#include "sim/base/errors.h"
#include "tests/support/sanitized.h"
#include "traces/guard/interrupted.h"
#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/hdf5_type.h"

namespace kvsim::traces_test::guard_test {

using namespace std::chrono_literals;

constexpr GuardLimits kLimits{.cpu_time = 1s, .memory = 64 << 20, .time = 60s};
const std::string kNoStructure = "t.h5: expected a file whose structure can be read, found ";
const std::string kFix = "; copy it again";

std::string error_of(const std::function<void()>& read, const GuardLimits& limits = kLimits) {
  try {
    try_in_child("t.h5", "copy it again", limits, read);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

[[noreturn]] void loop() {
  std::atomic<unsigned> rounds = 0;
  while (true) ++rounds;
}

/// Sets how a signal is handled while it lives.
class Handler {
 public:
  Handler(int signal, void (*handler)(int))
      : signal_(signal), before_(std::signal(signal, handler)) {}
  ~Handler() { std::signal(signal_, before_); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  int signal_;
  void (*before_)(int);
};

TEST_CASE("a child that reads to its end changes nothing here") {
  int number = 1;
  CHECK(error_of([&] { number = 2; }) == "");
  CHECK(number == 1);
}

TEST_CASE("what the child throws is thrown here") {
  const std::string text(100'000, 'x');  // more than a pipe holds
  CHECK(error_of([&] { throw DataError(text); }) == text);
  CHECK_THROWS_AS(error_of([] { throw std::runtime_error("no disk"); }), std::runtime_error);
  CHECK_THROWS_WITH(error_of([] { throw std::runtime_error("no disk"); }), "no disk");
  CHECK(error_of([] { throw std::bad_alloc(); }) ==
        kNoStructure + "a need for more than 64 MiB" + kFix);
}

TEST_CASE("a child that loops ends in one line") {
  CHECK(error_of(loop) == kNoStructure + "more than 1 s of CPU time" + kFix);
}

TEST_CASE("a child that takes ever more memory ends in one line") {
  const std::string error = error_of([] {
    std::vector<std::vector<char>> taken;
    for (int i = 0; i < 1024; ++i) taken.emplace_back(1 << 20, 'x');
  });
  if (test_support::has_address_sanitizer()) {  // it ends the process where new would throw
    CHECK_THAT(error, Catch::StartsWith(kNoStructure));
  } else {
    CHECK(error == kNoStructure + "a need for more than 64 MiB" + kFix);
  }
}

TEST_CASE("a child has the memory that its limit says") {
  CHECK(error_of([] { std::vector<char>(32 << 20, 'x').swap(*new std::vector<char>()); }) == "");
}

TEST_CASE("a child that crashes ends in one line") {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) {
    const Handler ignored(signal, SIG_IGN);
    CHECK(error_of([&] { raise(signal); }) ==
          kNoStructure + "an end in signal " + std::to_string(signal) + kFix);
  }
  CHECK(error_of([] { raise(SIGKILL); }) ==
        kNoStructure + "an end in signal 9, as when a machine runs out of memory" + kFix);
  CHECK(error_of([] { _exit(7); }) == kNoStructure + "an end with status 7" + kFix);
}

TEST_CASE("a child that blocks ends in one line") {
  const GuardLimits limits{.cpu_time = 1s, .memory = 64 << 20, .time = 100ms};
  CHECK(error_of([] { pause(); }, limits) == kNoStructure + "no end after 0.1 s" + kFix);
}

TEST_CASE("a child works where the ends of children are ignored") {
  const Handler ignored(SIGCHLD, SIG_IGN);
  CHECK(error_of([] {}) == "");
  CHECK(error_of([] { throw DataError("damaged"); }) == "damaged");
  CHECK(error_of([] { raise(SIGSEGV); }) == kNoStructure + "an end without an answer" + kFix);
}

TEST_CASE("a child says nothing and hears nothing") {
  for (const char* const stream : {"/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"}) {
    CHECK(error_of([&] {
            char target[64] = {};
            if (readlink(stream, target, sizeof(target) - 1) > 0) throw DataError(target);
          }) == "/dev/null");
  }
}

TEST_CASE("a child is made while other threads use the library and memory") {
  std::atomic<bool> is_over = false;
  const auto work = [&] {
    while (!is_over) {
      const Hdf5Lock lock;
      half_type().getSize();
    }
  };
  std::thread one(work), other(work);
  for (int i = 0; i < 20; ++i)
    CHECK(error_of([] {
            const Hdf5Lock lock;
            throw DataError(type_name(half_type()));
          }) == "float16");
  is_over = true;
  one.join();
  other.join();
}

TEST_CASE("limits grow with the file") {
  const GuardLimits none = GuardLimits::of("no such file");
  CHECK(none.cpu_time == 20s);
  CHECK(none.memory == 1 << 30);
  CHECK(none.time == 600s);
}

}  // namespace kvsim::traces_test::guard_test
