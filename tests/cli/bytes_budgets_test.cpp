#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::bytes_budgets_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

// The bundled trace has keys and values of 16 numbers of 2 bytes: 64 bytes per token.
std::vector<std::string> sweep(const std::string& policies, const std::string& budgets) {
  return {"sweep", sample_trace(), "--policies", policies, "--budgets", budgets, "--layers",
          "0",     "-o",           "r.sqlite",   "--quiet"};
}

TEST_CASE("cli: a sweep takes sizes, its table goes by them, and rows have tokens") {
  const TemporaryFolder folder;
  const Ended swept = run(folder.path(), sweep("window;window+quant", "2KiB..4KiB:2KiB,20%"));
  INFO(swept.err);
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out, Contains("\n2KiB    window            32   2048") &&
                            Contains("\n2KiB    window+quant      85   2040") &&
                            Contains("\n4KiB    window            64   4096") &&
                            Contains("\n20%     window           102   6528") &&
                            Contains("at 4KiB least"));
  const Ended compared =
      run(folder.path(), {"compare", "r.sqlite", "window+quant", "window", "--format", "json"});
  const auto rows = nlohmann::json::parse(compared.out);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["budget"] == "2KiB");
  CHECK(rows[1]["budget"] == 102);  // the order is that of A's tokens
  CHECK(rows[2]["budget"] == "4KiB");
  CHECK(compared.err.empty());
  const Ended one = run(folder.path(), {"compare", "r.sqlite", "window+quant", "window", "--budget",
                                        "2048B", "--format", "json"});
  CHECK(nlohmann::json::parse(one.out)[0]["difference"] == rows[0]["difference"]);
  CHECK(run(folder.path(), sweep("window;window+quant", "2KiB,4096B")).status == 0);
}

TEST_CASE("cli: what a size holds follows from the element of the deployment") {
  const TemporaryFolder folder;
  const auto tokens = [&](const std::string& bits) {
    const Ended ended = run(folder.path(), {"cost", "--model", "llama-2-7b", "--budget", "64KiB",
                                            "--kv-bits", bits, "--format", "json"});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return nlohmann::json::parse(ended.out)[0]["cached_tokens"].get<int>();
  };
  CHECK(tokens("16") == 128);  // 2 x 128 numbers
  CHECK(tokens("4.5") == 455);
  const Ended none = run(folder.path(), {"cost", "--model", "llama-2-7b", "--budget", "511B"});
  CHECK(none.status == 2);
  CHECK_THAT(none.err, Contains("tokens of 512 bytes per KV head, found 0"));
}

TEST_CASE("cli: a size is refused where no budget is asked for, and where nothing fits") {
  const TemporaryFolder folder;
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Ended ended = run(folder.path(), arguments);
    CHECK(ended.status == 2);
    return ended.err;
  };
  CHECK_THAT(error(sweep("h2o:recent=1KiB", "20%")), Contains("recent '1KiB' is a size"));
  CHECK_THAT(error(sweep("window", "63B")), Contains("takes 64 bytes per KV head; use 64B"));
  CHECK_THAT(error(sweep("window", "64KB")), Contains("or bytes per KV head (64KiB, 64kB)"));
  CHECK_THAT(error({"curve", sample_trace(), "--policies", "window", "--output-error", "1KiB", "-o",
                    "r.sqlite"}),
             Contains("'1KiB' is a size"));
  CHECK_THAT(
      error({"fetch", sample_trace(), "--select", "quest", "--resident", "1KiB", "-o", "r.sqlite"}),
      Contains("'1KiB' is a size"));
}

}  // namespace kvsim::cli_test::bytes_budgets_test
