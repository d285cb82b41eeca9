#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::config_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

void write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.path() / name) << text;
}

nlohmann::json rows(const TemporaryFolder& folder, const std::string& file) {
  return nlohmann::json::parse(
      run(folder.path(), {"export", file, "--format", "json", "--table", "replay"}).out);
}

TEST_CASE("cli: --config gives what the command line does not") {
  const TemporaryFolder folder;
  write(folder, "sweep.yaml",
        "# a sweep\ntrace: [" + sample_trace() +
            "]\npolicies:\n  - window\n  - h2o:recent={0,0.5}\nbudgets: [5%, 64]\n"
            "sequences: held-out-text\nlayers: [0, 1]\nheads: 0\nthreads: 1\nquiet: true\n"
            "verbose: false\noutput: yaml.sqlite\n");
  const Ended yaml = run(folder.path(), {"sweep", "--config", "sweep.yaml"});
  INFO(yaml.err);
  REQUIRE(yaml.status == 0);
  CHECK(yaml.err.empty());
  CHECK(rows(folder, "yaml.sqlite").size() == 3 * 2 * 2);

  // The command line comes first, whichever stands first.
  const Ended less = run(folder.path(), {"sweep", "--budgets", "32", "--config", "sweep.yaml", "-o",
                                         "less.sqlite", "--policies", "lru"});
  REQUIRE(less.status == 0);
  REQUIRE(rows(folder, "less.sqlite").size() == 2);
  CHECK(rows(folder, "less.sqlite")[0]["budget"] == 32);

  const nlohmann::json same{{"trace", sample_trace()}, {"policies", "window;h2o:recent={0,0.5}"},
                            {"budgets", {"5%", 64}},   {"sequences", {"held-out-text"}},
                            {"layers", "0-1"},         {"heads", 0},
                            {"quiet", true},           {"output", "json.sqlite"}};
  for (const int indent : {-1, 2}) {
    write(folder, "sweep.json", same.dump(indent, '\t'));
    std::filesystem::remove(folder / "json.sqlite");
    const Ended json = run(folder.path(), {"sweep", "--config", "sweep.json"});
    INFO(json.err);
    REQUIRE(json.status == 0);
    CHECK(json.out == yaml.out);
  }
}

TEST_CASE("cli: the table run has what a --config said, not its name") {
  const TemporaryFolder folder;
  write(folder, "sweep.yaml",
        "trace: " + sample_trace() +
            "\npolicies: [lru, 'h2o:recent={0,0.5}']\nbudgets: [5%, 64]\nlayers: [0, 1]\n"
            "quiet: true\nseed: 3\noutput: r.sqlite\n");
  REQUIRE(run(folder.path(), {"sweep", "--config", "sweep.yaml", "--heads", "0"}).status == 0);
  const std::string command = nlohmann::json::parse(
      run(folder.path(), {"export", "r.sqlite", "--format", "json", "--table", "run"})
          .out)[0]["command"];
  CHECK(command == "kvsim sweep " + sample_trace() +
                       " --budgets 5% --budgets 64 --heads 0 --layers 0,1 --output r.sqlite "
                       "--policies lru --policies 'h2o:recent={0,0.5}' --quiet --seed 3");
}

TEST_CASE("cli: a --config that cannot be meant is refused, naming file and key") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"polices: lru\n", "unknown key 'polices'; did you mean 'policies'?"},
      {"config: other.yaml\n", "key 'config': a config names no other config"},
      {"help: true\n", "key 'help': expected --help on the command line"},
      {"policies: [h2o:recent={0,0.5}]\n", "; put specs with braces in quotes"},
      {"o: r.sqlite\n", "unknown key 'o'"},
      {"mode: [stream, prefill]\n", "key 'mode': expected one value"},
      {"budgets: {a: 1}\n", "key 'budgets'"},
      {"budgets: []\n", "key 'budgets'"},
      {"budgets:\n", "key 'budgets'"},
      {"budgets: [[5%]]\n", "key 'budgets'"},
      {"quiet: perhaps\n", "key 'quiet': expected true or false"},
      {"threads: many\n", "threads"},
      {"threads: \"%value% %option%\"\n", "'%value% %option%'"},
      {"seed: 1\nseed: 2\n", "'seed' is given twice"},
      {"- lru\n", "option names as keys"},
      {"lru\n", "option names as keys"},
      {"", "option names as keys"},
      {"seed: 1\n---\nseed: 2\n", "one document"},
      {"budgets: [5%\n", "neither YAML nor JSON"},
      {"{\"budgets\": ", "neither YAML nor JSON"},
      {"? [a]\n: 1\n", "unknown key ''"}};
  for (const auto& [text, reason] : wrong) {
    CAPTURE(text);
    write(folder, "c.yaml", text);
    const Ended ended =
        run(folder.path(), {"sweep", sample_trace(), "--policies", "lru", "--config", "c.yaml"});
    CHECK(ended.status == 2);
    CHECK_THAT(ended.err, Contains("--config c.yaml") && Contains(reason));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  }
  CHECK_THAT(run(folder.path(), {"sweep", "--config", "none.yaml"}).err,
             Contains("none.yaml: no such file"));
  const Ended with_folder = run(folder.path(), {"sweep", "--config", "."});
  CHECK(with_folder.status == 2);
  CHECK_THAT(with_folder.err, Contains("--config .: is a folder"));
}

}  // namespace kvsim::cli_test::config_test
