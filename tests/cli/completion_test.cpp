#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "policies/registry/registry.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::completion_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// What a command of the shell prints.
std::string shell(const std::string& command) {
  std::string out;
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> part{};
  while (fgets(part.data(), part.size(), pipe) != nullptr) out += part.data();
  pclose(pipe);
  return out;
}

/// What bash offers for the last of `words`, one per line.
std::string completed(const TemporaryFolder& folder, const std::vector<std::string>& words) {
  std::ofstream script(folder / "try.bash");
  script << run(folder.path(), {"completion", "bash"}).out << "COMP_WORDS=(kvsim";
  for (const std::string& word : words) script << " '" << word << "'";
  script << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
         << "_kvsim kvsim \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"\n"
         << "((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  script.close();
  return shell("bash '" + (folder / "try.bash").string() + "' 2>&1");
}

TEST_CASE("cli: bash completes verbs, options, policies and what a verb takes") {
  const TemporaryFolder folder;
  CHECK(completed(folder, {"swe"}) == "sweep\n");
  CHECK(completed(folder, {"sweep", "--pol"}) == "--policies\n");
  CHECK(completed(folder, {"replay", "t.h5", "--pol"}) == "--policy\n");
  CHECK(completed(folder, {"synth", "--retrieval-s"}) ==
        "--retrieval-share\n--retrieval-strength\n");
  CHECK(completed(folder, {"sweep", "t.h5", "--policies", "scis"}) == "scissorhands\n");
  CHECK(completed(folder, {"sweep", "t.h5", "--policies", "window;h2o;sna"}) ==
        "window;h2o;snapkv\n");
  CHECK(completed(folder, {"policies", "tov"}) == "tova\n");
  CHECK(completed(folder, {"completion", "z"}) == "zsh\n");
  CHECK(completed(folder, {"sweep", "t"}).empty());  // bash's own file names
}

TEST_CASE("cli: the scripts of all shells name every verb, option and policy") {
  const TemporaryFolder folder;
  const std::string help = run(folder.path(), {"--help"}).out;
  for (const char* name : {"bash", "zsh", "fish"}) {
    CAPTURE(name);
    const Ended script = run(folder.path(), {"completion", name});
    REQUIRE(script.status == 0);
    CHECK(script.err.empty());
    for (const char* word : {"analyze", "completion", "output-error", "config", "per-step"}) {
      CHECK_THAT(script.out, Contains(word));
    }
    for (const PolicyInfo& policy : policies()) CHECK_THAT(script.out, Contains(policy.name));
  }
  const Ended wrong = run(folder.path(), {"completion", "tcsh"});
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.err, Contains("bash|zsh|fish"));
}

}  // namespace kvsim::cli_test::completion_test
