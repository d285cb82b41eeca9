#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <regex>
#include <thread>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::progress_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// What the program writes to a terminal.
std::string on_terminal(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), program());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int terminal = 0;
  const int process = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (process == 0) {
    if (chdir(folder.path().c_str()) != 0) _exit(127);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  std::string shown;
  char part[4096];
  // Reading fails once the program has closed its end.
  for (ssize_t count = 0; (count = ::read(terminal, part, sizeof part)) > 0;) {
    shown.append(part, static_cast<std::size_t>(count));
  }
  close(terminal);
  int status = 0;
  waitpid(process, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  return shown;
}

TEST_CASE("cli: on a terminal a sweep counts the replays that it announces") {
  const TemporaryFolder folder;
  // Policies of a head and of a layer: two jobs per unit.
  std::vector<std::string> words{"sweep",      sample_trace(),
                                 "-o",         "r.sqlite",
                                 "--layers",   "0",
                                 "--policies", "window;tova:scope=layer",
                                 "--budgets",  "5%,10%"};
  const std::string shown = on_terminal(folder, words);
  const std::regex announced("kvsim: ([0-9]+) replays of [0-9]+ units, 0 done before");
  std::smatch match;
  REQUIRE(std::regex_search(shown, match, announced));
  const std::string all = match[1];
  CHECK_THAT(shown, Contains("0 of " + all + " replays"));
  CHECK_THAT(shown, Contains("] " + all + " of " + all + " replays"));

  words.back() = "5%,10%,20%";
  const std::string half = std::to_string(std::stoi(all) / 2 * 3);
  CHECK_THAT(on_terminal(folder, words),
             Contains("] " + all + " of " + half + " replays"));  // where the first run ended
}

/// Interrupts the process once it writes the file, unless it has ended before.
void interrupt_once_written(int process, const TemporaryFolder& folder, const std::string& file) {
  const auto has_ended = [&] {
    siginfo_t ended{};
    const int state =
        waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT);
    return state != 0 || ended.si_pid != 0;
  };
  while (folder.num_partial(file) == 0 && !has_ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(process, SIGINT);
}

/// Starts `kvsim synth`, interrupts it once it writes, and returns how it ended.
Ended interrupted_synth(const TemporaryFolder& folder) {
  const int process =
      start(folder.path(), {"synth", "-o", "t.h5", "--tokens", "20000", "--layers", "64"});
  interrupt_once_written(process, folder, "t.h5");
  return wait(folder.path(), process);
}

TEST_CASE("cli: an interrupted synth leaves no file and keeps the one that was there") {
  const TemporaryFolder folder;
  const Ended ended = interrupted_synth(folder);
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Contains("kvsim: error: interrupted; t.h5 is not written"));
  CHECK_FALSE(std::filesystem::exists(folder / "t.h5"));
  CHECK(folder.num_partial("t.h5") == 0);

  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "20"}).status == 0);
  const auto size = std::filesystem::file_size(folder / "t.h5");
  CHECK(interrupted_synth(folder).status == 1);
  CHECK(std::filesystem::file_size(folder / "t.h5") == size);
  CHECK(run(folder.path(), {"info", "t.h5"}).status == 0);
}

TEST_CASE("cli: an interrupted replay leaves the per-step file of an earlier one") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(),
              {"synth", "-o", "t.h5", "--tokens", "4000", "--layers", "8", "--no-output"})
              .status == 0);
  std::ofstream(folder / "steps.h5") << "earlier";
  const int process = start(folder.path(), {"replay", "t.h5", "--policy", "tova", "--budget", "50%",
                                            "--threads", "1", "--per-step", "steps.h5", "--quiet"});
  interrupt_once_written(process, folder, "steps.h5");
  CHECK(wait(folder.path(), process).status == 1);
  CHECK(std::filesystem::file_size(folder / "steps.h5") == std::string("earlier").size());
  CHECK(folder.num_partial("steps.h5") == 0);
}

}  // namespace kvsim::cli_test::progress_test
