#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "sim/base/errors.h"
#include "tests/faults/inputs/inputs.h"
#include "tests/faults/inputs/trace_numbers.h"

namespace kvsim::faults {
namespace {

// Of a child; more is a hang. A guarded reading may take what traces/guard allows it.
constexpr unsigned kMostSeconds = 10;
constexpr unsigned kMostSecondsGuarded = 90;

/// As statuses of a child, none of which a sanitizer or the library ends a process with.
enum End { kEqual = 40, kRefused, kOther, kDied };

End end_of(const std::function<Trace()>& open, const std::string& expected) {
  try {
    return numbers_of(open()) == expected ? kEqual : kOther;
  } catch (const DataError&) {
    return kRefused;
  }
}

/// The same in a child, where the library may crash and hang. What it prints goes nowhere.
End end_in_child(const std::function<Trace()>& open, const std::string& expected,
                 unsigned most_seconds) {
  const int child = fork();
  if (child == 0) {
    dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
    // The fuzzer's own handlers would take a crash here for a find.
    for (const int each : {SIGALRM, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
      signal(each, SIG_DFL);
    }
    alarm(most_seconds);
    End end = kDied;
    try {
      end = end_of(open, expected);
    } catch (...) {
    }
    _exit(end);
  }
  int state = 0;
  waitpid(child, &state, 0);
  const int status = WIFEXITED(state) ? WEXITSTATUS(state) : kDied;
  return status >= kEqual && status < kDied ? End(status) : kDied;
}

}  // namespace

void check_trace(std::string_view input) {
  static const std::string numbers_of_seed = numbers_of(Trace::from_image(seed_trace(false)));
  const std::string bytes(input);
  const auto open = [&] { return Trace::from_image(bytes); };
  End end = end_in_child(open, numbers_of_seed, kMostSeconds);
  if (end == kDied) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("kvsim-fuzz-" + std::to_string(getpid()) + ".h5");
    std::ofstream(file, std::ios::binary) << bytes;
    end = end_in_child([&] { return Trace(file); }, numbers_of_seed, kMostSecondsGuarded);
    std::filesystem::remove(file);
  } else {
    end = end_of(open, numbers_of_seed);  // once more here, where the fuzzer sees what was reached
  }
  if (end == kOther) throw std::logic_error("other numbers than the seed's, and no error");
  if (end == kDied) throw std::logic_error("reading the trace ends the process, or never ends");
}

}  // namespace kvsim::faults
