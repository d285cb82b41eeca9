#include <catch2/catch.hpp>

#include "tests/faults/calls/writing_commands.h"

namespace kvsim::faults::concurrent_writers_test {

using traces_test::TemporaryFolder;

// Each process has a folder of its own for what it prints.
std::vector<cli_test::Ended> run_together(const TemporaryFolder& folder, int count,
                                          const std::vector<std::string>& arguments) {
  std::vector<std::filesystem::path> folders;
  std::vector<int> processes;
  for (int i = 0; i < count; ++i) {
    folders.push_back(folder / std::to_string(i));
    std::filesystem::create_directory(folders.back());
    processes.push_back(cli_test::start(folders.back(), arguments));
  }
  std::vector<cli_test::Ended> ended;
  for (int i = 0; i < count; ++i) {
    ended.push_back(cli_test::wait(folders[i], processes[i]));
    std::filesystem::remove_all(folders[i]);
  }
  return ended;
}

TEST_CASE("faults: several processes that write one file all succeed, and it is whole") {
  const TemporaryFolder folder;
  write_input(folder);
  const WritingCommand& command = *GENERATE(&kWriteTrace, &kSweep, &kPerStep);
  REQUIRE(cli_test::run(folder.path(), command.arguments).status == 0);
  const std::string expected = contents(folder.path(), command.output);
  REQUIRE_FALSE(expected.empty());
  // The same command, as another folder names the files.
  std::vector<std::string> arguments = command.arguments;
  for (std::string& word : arguments) {
    if (word == "t.h5" || word == command.output) word = "../" + word;
  }
  const int rounds = stride_of(2) == 1 ? 50 : 3;
  for (int round = 0; round < rounds; ++round) {
    std::filesystem::remove(folder / command.output);
    for (const cli_test::Ended& ended : run_together(folder, 4, arguments)) {
      INFO(ended.err);
      CHECK(ended.status == 0);
    }
    CHECK((contents(folder.path(), command.output) == expected));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      CHECK(entry.path().string().find("partial") == std::string::npos);
    }
  }
}

}  // namespace kvsim::faults::concurrent_writers_test
