#include "tests/faults/calls/failing_program.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/build_tree.h"
#include "tests/support/nightly.h"

namespace kvsim::faults {
namespace {

namespace fs = std::filesystem;

/// Sets environment variables for the processes that are started while it lives.
class Environment {
 public:
  explicit Environment(std::vector<std::pair<std::string, std::string>> variables)
      : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> variables_;
};

std::string bytes_of(const fs::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// Checks the files. Apart from the inputs these may be there: the output, what start() writes, and
/// the journal with which SQLite undoes an unfinished commit when the file is next opened. A
/// program that was ended leaves its partial file to the next writer.
void check_files(const fs::path& folder, std::set<std::string> allowed, const std::string& output,
                 bool was_ended) {
  allowed.insert({"out", "err", "tally", output});
  if (output.ends_with(".sqlite")) allowed.insert(output + "-journal");
  for (const std::string& name : files_in(folder)) {
    INFO(name);
    if (was_ended && name.starts_with(output + ".partial-")) continue;
    CHECK(allowed.count(name) == 1);
  }
}

/// Whether every line of `part` is one of `whole`, in its order.
bool has_lines(const std::string& whole, const std::string& part) {
  std::istringstream all(whole);
  std::istringstream some(part);
  std::string line;
  std::string next;
  while (std::getline(some, line)) {
    do {
      if (!std::getline(all, next)) return false;
    } while (next != line);
  }
  return true;
}

}  // namespace

FaultyEnd run_failing(const fs::path& folder, const std::vector<std::string>& arguments,
                      const FailingCall& call) {
  const fs::path tally = folder / "tally";
  fs::remove(tally);
  const Environment environment(
      {{"LD_PRELOAD", test_support::build_tree() / "tests/failing_calls.so"},
       {"KVSIM_FAIL_CALLS", call.kinds},
       {"KVSIM_FAIL_AT", std::to_string(call.at)},
       {"KVSIM_FAIL_ON", call.all_later_ones ? "forever" : "once"},
       {"KVSIM_FAIL_UNDER", fs::canonical(folder).string() + "/"},
       {"KVSIM_FAIL_TALLY", tally.string()}});
  const cli_test::Ended ended = cli_test::run(folder, arguments);
  std::array<std::int64_t, 2> calls_and_failures{-1, -1};
  std::ifstream(tally, std::ios::binary)
      .read(reinterpret_cast<char*>(calls_and_failures.data()), sizeof calls_and_failures);
  REQUIRE(calls_and_failures[0] >= 0);  // else the library was not loaded
  return {ended, calls_and_failures[1] > 0};
}

std::string contents(const fs::path& folder, const std::string& output) {
  if (!fs::exists(folder / output)) return "";
  if (!output.ends_with(".sqlite")) return bytes_of(folder / output);
  const cli_test::Ended ended =
      cli_test::run(folder, {"export", output, "--without", "run_id,trace"});
  return ended.status == 0 ? ended.out : "";
}

int error_lines(const std::string& text) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.starts_with("kvsim: error: ") ? 1 : 0;
  }
  return count;
}

void fail_every_call(const fs::path& folder, const WritingCommand& command, FailingCall call,
                     int stride, const std::function<bool(const cli_test::Ended&)>& check_end) {
  const std::set<std::string> inputs = files_in(folder);
  const auto remove_outputs = [&] {
    for (const std::string& name : files_in(folder)) {
      if (inputs.count(name) == 0) fs::remove_all(folder / name);
    }
  };
  REQUIRE(cli_test::run(folder, command.arguments).status == 0);
  const std::string expected = contents(folder, command.output);
  REQUIRE_FALSE(expected.empty());
  for (;; call.at += stride) {
    remove_outputs();
    const auto [ended, has_failed] = run_failing(folder, command.arguments, call);
    INFO(command.arguments.front()
         << ": " << call.kinds << " " << call.at << (call.all_later_ones ? " and later ones" : "")
         << ": " << ended.status << " " << ended.err);
    if (check_end && check_end(ended)) continue;
    CHECK((ended.status == 0 || ended.status == 1 || ended.status == 3));
    CHECK(error_lines(ended.err) == (ended.status == 0 ? 0 : 1));
    check_files(folder, inputs, command.output, call.all_later_ones);
    const std::string kept = contents(folder, command.output);
    if (ended.status == 0) {
      CHECK((kept == expected));
    } else if (ended.status == 1) {  // after bad data a replay keeps the units before
      const bool is_whole = kept.empty() || kept == expected;
      CHECK((is_whole || (command.output.ends_with(".sqlite") && has_lines(expected, kept))));
    }
    const cli_test::Ended again = cli_test::run(folder, command.arguments);
    CHECK(again.status == 0);
    CHECK((contents(folder, command.output) == expected));
    check_files(folder, inputs, command.output, false);
    if (!has_failed) break;
  }
  remove_outputs();
}

int stride_of(int stride) { return test_support::sample_of(stride, 1); }

}  // namespace kvsim::faults
