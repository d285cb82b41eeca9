#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/build_tree.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::plugin_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

std::string plugin(const std::string& name) {
  return test_support::build_tree() / "tests/plugins" / ("lib" + name + ".so");
}

nlohmann::json table(const TemporaryFolder& folder, const std::string& file,
                     const std::string& name) {
  return nlohmann::json::parse(
      run(folder.path(), {"export", file, "--format", "json", "--table", name}).out);
}

std::vector<std::string> small_sweep(const std::string& output) {
  return {"sweep",      sample_trace(),
          "--policies", "decayed-attention:decay={1,0.5}",
          "--budgets",  "32",
          "--layers",   "0",
          "--heads",    "0",
          "--quiet",    "-o",
          output};
}

TEST_CASE("cli: --plugin stands before the verb, after it or in a --config") {
  const TemporaryFolder folder;
  const std::string file = plugin("decayed_attention");
  std::vector<std::string> before = small_sweep("before.sqlite");
  before.insert(before.begin(), {"--plugin", file});
  std::vector<std::string> after = small_sweep("after.sqlite");
  after.push_back("--plugin=" + file);
  std::ofstream(folder / "c.yaml") << "plugin: " << file << '\n';
  std::vector<std::string> config = small_sweep("config.sqlite");
  config.insert(config.end(), {"--config", "c.yaml"});
  const Ended first = run(folder.path(), before);
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(run(folder.path(), after).out == first.out);
  CHECK(run(folder.path(), config).out == first.out);
  for (const char* results : {"before.sqlite", "after.sqlite", "config.sqlite"}) {
    CHECK(table(folder, results, "replay").size() == 2 * 2);
    const auto command = table(folder, results, "run")[0]["command"].get<std::string>();
    CHECK_THAT(command, Contains("--plugin") && Contains(file));
  }
  CHECK(run(folder.path(), small_sweep("none.sqlite")).status == 2);
}

TEST_CASE("cli: what a plug-in has is listed and explained") {
  const TemporaryFolder folder;
  const std::string file = plugin("decayed_attention");
  const Ended listed = run(folder.path(), {"--plugin", file, "policies"});
  CHECK_THAT(listed.out, Contains("decayed-attention:recent=0.5,decay=0.9") && Contains(file));
  CHECK(run(folder.path(), {"policies", "decayed-attention", "--plugin", file}).status == 0);
  CHECK_THAT(run(folder.path(), {"--plugin", plugin("key_norms"), "analyze", "--help"}).out,
             Contains("key-norms"));
  CHECK_THAT(run(folder.path(), {"--help"}).out, Contains("kvsim --plugin FILE VERB"));
}

TEST_CASE("cli: an analysis of a plug-in has its table, and its columns stand in about") {
  const TemporaryFolder folder;
  const Ended ended =
      run(folder.path(), {"--plugin", plugin("key_norms"), "analyze", sample_trace(), "--what",
                          "key-norms,sparsity", "--layers", "1", "-q", "-o", "r.sqlite"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out, Contains("mean_norm"));
  CHECK(table(folder, "r.sqlite", "key_norms").size() == table(folder, "r.sqlite", "unit").size());
  CHECK_THAT(run(folder.path(), {"export", "r.sqlite", "--table", "about"}).out,
             Contains("key_norms,mean_norm,mean Euclidean norm"));
}

TEST_CASE("cli: a plug-in that is none ends in one line, with 2 for options and 3 for files") {
  const TemporaryFolder folder;
  const Ended missing = run(folder.path(), {"--plugin", "none.so", "policies"});
  CHECK(missing.status == 3);
  CHECK(missing.err == "kvsim: error: none.so: expected a plug-in: No such file or directory\n");
  CHECK(run(folder.path(), {"policies", "--plugin", plugin("no_entry")}).status == 3);
  CHECK(run(folder.path(), {"--plugin"}).status == 2);
  const Ended path = run(folder.path(), {"sweep", sample_trace(), "--policies", "./libmine.so",
                                         "--budgets", "32", "-o", "r.sqlite"});
  CHECK(path.status == 2);
  CHECK_THAT(path.err, Contains("--plugin ./libmine.so"));
}

}  // namespace kvsim::cli_test::plugin_test
