#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::split_files_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended sweep(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> words{"sweep",   sample_trace(), "--sequences", "held-out-text",
                                 "--quiet", "--budgets",    "40",          "-o",
                                 "r.sqlite"};
  words.insert(words.end(), more.begin(), more.end());
  return run(folder.path(), words);
}

void write_weights(const TemporaryFolder& folder, const std::string& last) {
  std::ofstream(folder / "w.tsv") << "1\t2\t3\t4\n1\t1\t1\t1\n2\t2\t2\t2\n1\t1\t1\t" << last
                                  << '\n';
}

TEST_CASE("cli: budgets follow a file of weights, and its rows go on while it is the same") {
  const TemporaryFolder folder;
  write_weights(folder, "1");
  const std::vector<std::string> words{"--policies", "window", "--allocate", "file:w.tsv"};
  const Ended first = sweep(folder, words);
  INFO(first.err);
  REQUIRE(first.status == 0);
  const auto rows = [&] {
    const Ended ended = run(folder.path(), {"export", "r.sqlite", "--format", "json"});
    return nlohmann::json::parse(ended.out);
  };
  const auto before = rows();
  int tokens = 0;
  for (const auto& row : before) tokens += row["peak_tokens"].get<int>();
  CHECK(before.size() == 16);
  CHECK(tokens == 16 * 40);
  CHECK_THAT(before[0]["policy"].get<std::string>(), Contains("window@file:file=w.tsv,sha256="));
  REQUIRE(sweep(folder, {"--policies", "window@file:w.tsv"}).status == 0);
  CHECK(rows().size() == 16);
  write_weights(folder, "2");
  REQUIRE(sweep(folder, words).status == 0);
  CHECK(rows().size() == 32);
}

TEST_CASE("cli: a file that cannot split the budget of the model is one line") {
  const TemporaryFolder folder;
  std::ofstream(folder / "w.tsv") << "1\t2\n";
  const auto refused = [&](const std::string& policy, int status, const std::string& hint) {
    const Ended ended = sweep(folder, {"--policies", policy});
    CAPTURE(policy, ended.err);
    CHECK(ended.status == status);
    CHECK_THAT(ended.err, Contains(hint));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  };
  refused("window@file:w.tsv", 3, "the 4 layers of the model, found 1");
  refused("window@file:none.npy", 3, "none.npy: expected a file of numbers per head");
  refused("window@file", 2, "@file:PATH");
  refused("window@file:w.tsv,beta=2", 2, "no parameter 'beta'");
  write_weights(folder, "1");
  refused("duo:file=w.tsv", 2, "sinks + recent = 384");
  refused("tova:scope=layer@headkv:w.tsv", 2, "share one cache");
}

TEST_CASE("cli: help explains a split and its parameters") {
  const TemporaryFolder folder;
  const Ended cake = run(folder.path(), {"policies", "@cake"});
  CHECK_THAT(cake.out, Contains("POLICY@cake:tau1=1,tau2=1") && Contains("ICLR 2025"));
  const Ended duo = run(folder.path(), {"policies", "duo"});
  CHECK_THAT(duo.out, Contains("recent=256") && Contains("full_attention_heads.tsv"));
}

}  // namespace kvsim::cli_test::split_files_test
