#include <H5Cpp.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::sampled_reference_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended sweep(const TemporaryFolder& folder, const std::string& policies,
            const std::string& samples) {
  return run(folder.path(),
             {"sweep", sample_trace(), "--policies", policies, "--budgets", "10%", "--layers", "2",
              "--heads", "0", "--reference", "sample:" + samples, "-o", "r.sqlite"});
}

nlohmann::json exported(const TemporaryFolder& folder, const std::string& table) {
  return nlohmann::json::parse(
      run(folder.path(), {"export", "r.sqlite", "--table", table, "--format", "json"}).out);
}

TEST_CASE("cli: a sweep at sampled steps prints and stores intervals of what it measures") {
  const TemporaryFolder folder;
  const Ended swept = sweep(folder, "window;h2o:preset=streaming", "16");
  INFO(swept.err);
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out, Contains("stream:reference=sample:16 mode") &&
                            Contains("95% intervals from the 16 sampled steps of each unit") &&
                            Contains("recall from"));
  const nlohmann::json rows = exported(folder, "replay");
  const nlohmann::json intervals = exported(folder, "sampled_interval");
  REQUIRE(rows.size() == 4);  // two texts
  for (const auto& row : rows) {
    CHECK(row["steps"] == 16);
    std::set<std::string> metrics;
    for (const auto& interval : intervals) {
      if (interval["sequence"] != row["sequence"] || interval["policy"] != row["policy"]) continue;
      const std::string metric = interval["metric"];
      CAPTURE(metric, row["policy"]);
      metrics.insert(metric);
      CHECK(interval["mode"] == "stream:reference=sample:16");
      CHECK(interval["steps"] == 16);
      CHECK(interval["run_id"] == row["run_id"]);
      CHECK(interval["low"] <= row[metric]);
      CHECK(interval["high"] >= row[metric]);
    }
    const bool has_bound = !row["bound_mean"].is_null();
    CHECK(has_bound == (row["policy"] == "window"));
    CHECK(metrics.size() == (has_bound ? 7 : 6));
  }
  CHECK_THAT(run(folder.path(), {"export", "r.sqlite", "--table", "about"}).out,
             Contains("sampled_interval,low,"));
}

TEST_CASE("cli: a sweep at sampled steps is resumed, and other samples are other rows") {
  const TemporaryFolder folder;
  const Ended first = sweep(folder, "window;h2o", "16");
  REQUIRE(first.status == 0);
  const nlohmann::json intervals = exported(folder, "sampled_interval");
  const Ended again = sweep(folder, "window;h2o", "16");
  CHECK_THAT(again.err, Contains("4 replays of 2 units, 4 done before"));
  CHECK(again.out == first.out);
  CHECK(exported(folder, "sampled_interval") == intervals);
  const Ended other = sweep(folder, "window;h2o", "32");
  CHECK_THAT(other.err, Contains(" 0 done before"));
  CHECK(exported(folder, "replay").size() == 8);
  CHECK(exported(folder, "sampled_interval").size() == 2 * intervals.size());
}

TEST_CASE("cli: all at sampled steps leaves out what needs every step") {
  const TemporaryFolder folder;
  const Ended swept = sweep(folder, "all", "4");
  CHECK(swept.status == 0);
  CHECK_THAT(swept.err, Contains("left out, as these options rule them out: topk"));
}

/// The columns of a dataset [query heads, steps] in which some number is there.
int columns_with_numbers(const H5::DataSet& dataset) {
  std::array<hsize_t, 2> shape{};
  REQUIRE(dataset.getSpace().getSimpleExtentDims(shape.data()) == 2);
  std::vector<float> numbers(shape[0] * shape[1]);
  dataset.read(numbers.data(), H5::PredType::NATIVE_FLOAT);
  std::set<std::size_t> columns;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!std::isnan(numbers[i])) columns.insert(i % shape[1]);
  }
  return static_cast<int>(columns.size());
}

TEST_CASE("cli: a replay at sampled steps prints intervals, and a record of every step its gaps") {
  const TemporaryFolder folder;
  const auto replay = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"replay",      sample_trace(), "--policy", "h2o",
                                       "--budget",    "51",           "--layers", "2",
                                       "--reference", "sample:8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(folder.path(), arguments);
  };
  const Ended shown = replay({"--per-step", "steps.h5"});
  INFO(shown.err);
  REQUIRE(shown.status == 0);
  CHECK_THAT(shown.out, Contains("95% intervals from the 8 sampled steps") &&
                            Contains("error sq from") && Contains("all, mean"));
  const H5::H5File file((folder.path() / "steps.h5").string(), H5F_ACC_RDONLY);
  const H5::Group group = file.openGroup("/sequences/held-out-text/layers/2/kv_heads/1");
  CHECK(columns_with_numbers(group.openDataSet("attention_recall")) == 8);
  CHECK(columns_with_numbers(group.openDataSet("output_error")) == 8);
  const Ended csv = replay({"--format", "csv"});
  CHECK(csv.status == 0);
  CHECK_FALSE(csv.out.find("95%") != std::string::npos);
}

}  // namespace kvsim::cli_test::sampled_reference_test
