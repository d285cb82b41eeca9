#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/results/store.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::compare_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

const std::string kH2O =
    "h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy";

Result row(const std::string& policy, int layer, double recall) {
  Result row;
  row.trace_id = std::string("0123abcd");
  row.sequence = std::string("text");
  row.layer = layer;
  row.policy = policy;
  row.budget = 102;
  row.budget_request = std::string("20%");
  row.mode = std::string("stream");
  row.attention_recall = recall;
  row.attention_loss = 1 - recall;
  row.bound_mean.reset();
  return row;
}

/// Three policies on eight heads: `window` 0.1 below `h2o`, and `random` around `window`.
void write_results(const TemporaryFolder& folder) {
  std::vector<Result> rows;
  for (int layer = 0; layer < 8; ++layer) {
    const double recall = 0.5 + 0.02 * layer;
    rows.push_back(row(kH2O, layer, recall));
    rows.push_back(row("window", layer, recall - 0.1));
    rows.push_back(row("random", layer, recall - 0.1 + (layer % 2 == 0 ? 0.05 : -0.05)));
  }
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write).add(rows);
}

Ended compare(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"compare", "r.sqlite"});
  return run(folder.path(), arguments);
}

TEST_CASE("cli: compare prints differences with intervals as CSV, JSON and a table") {
  const TemporaryFolder folder;
  write_results(folder);
  const Ended csv = compare(folder, {"h2o", "window", "--format", "csv"});
  CHECK(csv.status == 0);
  CHECK(csv.err.empty());
  CHECK_THAT(csv.out, Catch::StartsWith("budget,mode,difference,low,high,samples,sampled\n102,"));
  const auto rows =
      nlohmann::json::parse(compare(folder, {"h2o", "window", "--format", "json"}).out);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["budget"] == 102);
  CHECK(rows[0]["mode"] == "stream");
  for (const char* column : {"difference", "low", "high"}) {
    CHECK(rows[0][column].get<double>() == Approx(0.1));
  }
  CHECK(rows[0]["samples"] == 8);
  CHECK(rows[0]["sampled"] == "units");
  CHECK_THAT(compare(folder, {"h2o", "window"}).out,
             Contains("attention_recall (higher is better)") && Contains("A: " + kH2O) &&
                 Contains("B: window") && Contains("A better") && Contains("other texts"));
}

TEST_CASE("cli: compare calls no winner where the interval contains 0") {
  const TemporaryFolder folder;
  write_results(folder);
  const Ended undecided = compare(folder, {"window", "random"});
  CHECK_THAT(undecided.out, Contains("not distinguishable") && !Contains(" better\n"));
  const Ended loss = compare(folder, {"h2o", "window", "--metric", "attention_loss"});
  CHECK_THAT(loss.out, Contains("(lower is better)") && Contains("A better"));
}

TEST_CASE("cli: compare warns of metrics that rank policies unlike the running model") {
  const TemporaryFolder folder;
  write_results(folder);
  const auto of_metric = [&](const std::string& metric) {
    return compare(folder, {"h2o", "window", "--metric", metric}).out;
  };
  for (const char* metric :
       {"attention_recall", "miss_rate", "output_error_p95", "output_error_sq"}) {
    CHECK_THAT(of_metric(metric), Contains("At one budget no number of a replay reliably ranks"));
  }
  CHECK_THAT(of_metric("peak_tokens"), !Contains("Open loop"));
}

TEST_CASE("cli: compare takes several policies against one") {
  const TemporaryFolder folder;
  write_results(folder);
  const Ended several = compare(folder, {"window", "h2o", "random", "--format", "json"});
  const auto rows = nlohmann::json::parse(several.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["b"] == kH2O);
  CHECK(rows[0]["difference"].get<double>() == Approx(-0.1));
  CHECK(rows[1]["b"] == "random");
  CHECK_THAT(compare(folder, {"window", "h2o", "random"}).out, Contains("not corrected"));
}

TEST_CASE("cli: compare takes labels, but none that stands for several policies") {
  const TemporaryFolder folder;
  std::vector<Result> rows;
  for (const char* policy : {"lru:score=full", "lfu:score=full", "window"}) {
    for (int layer = 0; layer < 8; ++layer) {
      Result& labelled = rows.emplace_back(row(policy, layer, 0.5 + 0.01 * layer));
      labelled.label = std::string(policy) == "window" ? "mine" : "ours";
    }
  }
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write).add(rows);
  CHECK_THAT(compare(folder, {"mine", "lru:score=full"}).out, Contains("A: window\n"));
  const Ended ended = compare(folder, {"mine", "ours"});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.err, Contains("rows of lfu:score=full and of lru:score=full labelled 'ours'"));
  CHECK_THAT(compare(folder, {"mine=window", "ours=lru:score=full"}).out,
             Contains("A: window\nB: lru:score=full\n"));
  const Ended crossed = compare(folder, {"mine=lru:score=full", "window"});
  CHECK(crossed.status == 2);
  CHECK_THAT(crossed.err, Contains("labelled 'mine'; give the label or the spec"));
  CHECK_THAT(compare(folder, {"nine", "window"}).err, Contains("did you mean 'mine'?"));
  CHECK_THAT(compare(folder, {"windows", "ours"}).err, Contains("did you mean 'window'?"));
}

TEST_CASE("cli: compare takes the name of a policy that only the file knows") {
  const TemporaryFolder folder;
  write_results(folder);
  std::vector<Result> rows;
  for (int layer = 0; layer < 8; ++layer) {
    rows.push_back(row("of-python:decay=0.9", layer, 0.5));
    rows.push_back(row("of-others:a=1", layer, 0.5));
    rows.push_back(row("of-others:a=2", layer, 0.6));
  }
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write).add(rows);
  CHECK_THAT(compare(folder, {"of-python", "window"}).out, Contains("A: of-python:decay=0.9\n"));
  const Ended several = compare(folder, {"of-others", "window"});
  CHECK(several.status == 2);
  CHECK_THAT(several.err, Contains("has rows of of-others:a=1 and of of-others:a=2; name one"));
}

TEST_CASE("cli: compare takes the field's other names of policies") {
  const TemporaryFolder folder;
  std::vector<Result> rows;
  for (const char* policy : {"sink:sinks=4,positions=text", "window"}) {
    for (int layer = 0; layer < 5; ++layer) rows.push_back(row(policy, layer, 0.5));
  }
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write).add(rows);
  CHECK_THAT(compare(folder, {"Streaming-LLM", "window"}).out, Contains("A: sink:sinks=4"));
}

TEST_CASE("cli: compare says which rows took no part") {
  const TemporaryFolder folder;
  write_results(folder);
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write).add({row("window", 9, 0.5)});
  const Ended ended = compare(folder, {"h2o", "window", "--format", "csv"});
  CHECK(ended.status == 0);
  CHECK(ended.err == "kvsim: left out 1 row of window that " + kH2O + " does not have (at 20%)\n");
}

TEST_CASE("cli: compare selects rows, and refuses what the file does not hold with the nearest") {
  const TemporaryFolder folder;
  write_results(folder);
  const auto with = [&](const std::string& option, const std::string& value) {
    return compare(folder, {"h2o", "window", option, value});
  };
  const std::vector<std::pair<std::string, std::string>> held = {
      {"--budget", "20%"}, {"--budget", "102"},   {"--budget", "0.2"},    {"--mode", "stream"},
      {"--seed", "0"},     {"--trace-id", "012"}, {"--sequences", "text"}};
  for (const auto& [option, value] : held) CHECK(with(option, value).status == 0);
  struct Refused {
    std::string option, value, hint;
  };
  const std::vector<Refused> refused = {{"--budget", "30%", "stream 20%"},
                                        {"--mode", "steam", "'stream'"},
                                        {"--seed", "1", "no rows of h2o"},
                                        {"--trace-id", "f", "'f', which none of them starts with"},
                                        {"--sequences", "test", "'text'"},
                                        {"--metric", "recall", "'attention_recall'"},
                                        {"--metric", "bound_mean", "bound_mean is NULL"}};
  for (const Refused& one : refused) {
    const Ended ended = with(one.option, one.value);
    CAPTURE(one.option, ended.err);
    CHECK(ended.status == 2);
    CHECK_THAT(ended.err, Catch::StartsWith("kvsim: error: ") && Contains(one.hint));
  }
  const Ended unknown = compare(folder, {"h20", "window"});
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, Contains("no rows of 'h20'; did you mean '" + kH2O + "'?"));
  CHECK(compare(folder, {"h2o"}).status == 2);
}

TEST_CASE("cli: compare pairs rows of two modes, which is the price of pages") {
  const TemporaryFolder folder;
  write_results(folder);
  std::vector<Result> rows =
      ResultStore(folder.path() / "r.sqlite", ResultStore::Access::read).policy_results("window");
  for (Result& row : rows) {
    row.mode = "stream:page=17";
    *row.attention_recall -= 0.25;
  }
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write).add(rows);
  const Ended csv = compare(folder, {"window", "window", "--mode", "stream", "--mode-b",
                                     "stream:page=17", "--format", "csv"});
  CHECK(csv.status == 0);
  CHECK_THAT(csv.out, Catch::StartsWith("budget,mode,mode_b,difference,low,high,samples,sampled\n"
                                        "102,stream,stream:page=17,0.25"));
  const Ended alone = compare(folder, {"window", "window", "--mode-b", "stream:page=17"});
  CHECK(alone.status == 2);
  CHECK_THAT(alone.err, Contains("--mode-b: expected --mode"));
  const Ended wrong =
      compare(folder, {"window", "h2o", "--mode", "stream", "--mode-b", "stream:page=16"});
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.err, Contains("--mode-b: no row of the policies has 'stream:page=16'"));
}

TEST_CASE("cli: compare needs a result file with rows") {
  const TemporaryFolder folder;
  CHECK(compare(folder, {"h2o", "window"}).status == 3);
  ResultStore(folder.path() / "r.sqlite", ResultStore::Access::write);
  const Ended empty = compare(folder, {"h2o", "window"});
  CHECK(empty.status == 3);
  CHECK_THAT(empty.err, Contains("kvsim sweep"));
}

}  // namespace kvsim::cli_test::compare_test
