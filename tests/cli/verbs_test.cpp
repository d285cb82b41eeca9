#include <H5Cpp.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "sim/results/result.h"
#include "tests/cli/program.h"
#include "tests/cli/rows.h"
#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "traces/synth/synth.h"
#include "traces/trace_writer.h"

namespace kvsim::cli_test::verbs_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

TEST_CASE("cli: help explains every verb") {
  const TemporaryFolder folder;
  const Ended help = run(folder.path(), {"--help"});
  CHECK(help.status == 0);
  for (const char* verb : {"info", "verify", "synth", "policies", "replay", "sweep", "labels",
                           "compare", "export", "traces"}) {
    CHECK_THAT(help.out, Contains(verb));
    const Ended explained = run(folder.path(), {verb, "--help"});
    CHECK(explained.status == 0);
    CHECK_THAT(explained.out, Contains("usage: kvsim " + std::string(verb)));
  }
}

TEST_CASE("cli: help and an unknown verb name the commands of the Python package") {
  const TemporaryFolder folder;
  const Ended help = run(folder.path(), {"--help"});
  std::set<std::string> commands{"evaluate"};  // a module; the others are folders
  for (const auto& room : std::filesystem::directory_iterator(KVSIM_SOURCE_DIR "/python/kvsim")) {
    if (std::filesystem::exists(room.path() / "__main__.py")) {
      commands.insert(room.path().filename());
    }
  }
  for (const char* run_by_a_verb : {"report", "labels", "catalogue", "imports"}) {
    commands.erase(run_by_a_verb);
  }
  REQUIRE(commands.count("record") == 1);
  for (const std::string& command : commands) {
    CHECK_THAT(help.out, Contains("python -m kvsim." + command + " "));
    const Ended ended = run(folder.path(), {command});
    CHECK(ended.status == 2);
    CHECK_THAT(ended.err, Contains("Python package: python -m kvsim." + command + " ("));
  }
}

TEST_CASE("cli: policies shows every policy with its parameters, source and needs") {
  const TemporaryFolder folder;
  const Ended all = run(folder.path(), {"policies"});
  for (const PolicyInfo& policy : policies()) {
    const Ended one = run(folder.path(), {"policies", policy.name});
    CHECK(one.status == 0);
    CHECK_THAT(all.out, Contains(one.out));
    CHECK_THAT(one.out, Contains(Spec(policy).text()) && Contains(policy.keeps) &&
                            Contains(policy.source) && Contains(policy.sees));
    for (const Param& param : policy.params) {
      CHECK_THAT(one.out, Contains(param.name + "=" + param.initial) && Contains(param.help) &&
                              Contains(param.allowed()));
    }
  }
}

TEST_CASE("cli: info shows the shape of a trace and every layer") {
  const TemporaryFolder folder;
  const Ended info = run(folder.path(), {"info", sample_trace()});
  CHECK(info.status == 0);
  CHECK_THAT(info.out, Contains("numbers       float16\n"));
  CHECK_THAT(info.out, Contains("tiny-llama 0.75M") && Contains("copied-segment") &&
                           Contains("held-out-text") && Contains("float16"));
  const std::vector<std::pair<std::string, std::string>> sources{
      {"copied-segment", "copied-segment"},
      {"held-out-text", "WikiText-2 test, article Operation Eastern Exit"}};
  for (const auto& [sequence, source] : sources) {
    for (int layer = 0; layer < 4; ++layer) {
      CHECK_THAT(info.out,
                 Catch::Matches("[^]*\n" + sequence + " +512 +384 +" + std::to_string(layer) +
                                " +0-3 +- +float16 +float16 +yes +[^\n]* " + source + "\n[^]*"));
    }
  }
}

TEST_CASE("cli: info counts the spans of each label") {
  const TemporaryFolder folder;
  CHECK_THAT(run(folder.path(), {"info", sample_trace()}).out, !Contains("spans"));
  TraceHeader header;
  header.model = "made up";
  header.num_layers = header.shape.num_query_heads = header.shape.num_kv_heads = 1;
  header.shape.head_dim = header.shape.value_dim = 1;
  TraceWriter writer(folder.path() / "t.h5", header, ElementType::float16);
  for (const std::string name : {"one", "two", "without"}) {
    writer.begin_sequence(name, 9, 0, "", {});
    if (name == "one") writer.write_spans({{4, 9, "question"}, {0, 2, "answer"}, {3, 4, "answer"}});
    if (name == "two") writer.write_spans({{0, 1, "needle"}});
    const Matrix ones = Matrix::Ones(9, 1);
    writer.write_layer(0, {ones}, {ones}, {ones}, {});
  }
  writer.close();
  const Ended info = run(folder.path(), {"info", "t.h5"});
  CHECK(info.status == 0);
  CHECK_THAT(info.out, Catch::Matches("[^]*\n\nsequence +label +spans +tokens\n"
                                      "one +question +1 +5\none +answer +2 +3\n"
                                      "two +needle +1 +1\n"));
}

TEST_CASE("cli: info shows what is recorded in addition to attention") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "20", "--hidden", "12",
                              "--gradient-samples", "3", "--mlp-width", "24"})
              .status == 0);
  CHECK_THAT(run(folder.path(), {"info", "t.h5"}).out,
             Contains("output_projection[12], residual, output_score_grad[3], mlp_activation[24]"));
}

TEST_CASE("cli: info says what a trace of version 1 lacks, and verify that it checks no digest") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "70"}).status == 0);
  CHECK_THAT(run(folder.path(), {"info", "t.h5"}).out, Contains("format        2, with digests\n"));
  CHECK_THAT(run(folder.path(), {"verify", "t.h5"}).out, Contains("all 25 heads and lists in 9 "));
  traces_test::make_version_1(folder.path() / "t.h5");
  CHECK_THAT(run(folder.path(), {"info", "t.h5"}).out,
             Contains("format        1, without digests: damage goes unnoticed; kvsim convert "));
  const Ended verified = run(folder.path(), {"verify", "t.h5"});
  CHECK(verified.status == 0);
  CHECK_THAT(verified.out, Contains("version 1 has no digests to check; kvsim convert "));
}

TEST_CASE("cli: verify agrees with the bundled trace and with what synth writes") {
  const TemporaryFolder folder;
  CHECK(run(folder.path(), {"verify", sample_trace()}).status == 0);
  for (const std::string type : {"float16", "float32"}) {
    REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "70", "--dtype", type}).status ==
            0);
    const Ended verified = run(folder.path(), {"verify", "t.h5"});
    INFO(verified.err << verified.out);
    CHECK(verified.status == 0);
    CHECK_THAT(verified.out, Contains("agrees") && !Contains("DIFFERS"));
  }
}

TEST_CASE("cli: verify fails where the recorded output is not what the queries and keys give") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "70"}).status == 0);
  {
    const H5::H5File file((folder.path() / "t.h5").string(), H5F_ACC_RDWR);
    traces_test::set_number(file, "/sequences/synthetic/layers/1/output", {3, 40, 0}, 9.0F);
  }
  const Ended changed = run(folder.path(), {"verify", "t.h5"});
  CHECK(changed.status == 3);
  CHECK_THAT(changed.err, Contains("t.h5: /sequences/synthetic/layers/1/output: expected digest "));
  traces_test::seal_again(folder.path() / "t.h5");
  const Ended spoiled = run(folder.path(), {"verify", "t.h5"});
  CHECK(spoiled.status == 3);
  CHECK_THAT(spoiled.out, Contains("agrees") && Contains("DIFFERS"));
  CHECK_THAT(spoiled.err, Contains("1 of 2 layers"));

  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "70", "--no-output"}).status == 0);
  const Ended without = run(folder.path(), {"verify", "t.h5"});
  CHECK(without.status == 3);
  CHECK_THAT(without.err, Contains("no layer has a recorded output"));
}

TEST_CASE("cli: replay prints the same rows as a table, as CSV and as JSON") {
  const TemporaryFolder folder;
  const std::vector<std::string> replay{"replay",   sample_trace(), "--policy", "h2o",
                                        "--budget", "10%",          "--layers", "2",
                                        "--heads",  "0-1",          "--quiet",  "--format"};
  const auto with_format = [&](const std::string& format) {
    std::vector<std::string> arguments = replay;
    arguments.push_back(format);
    const Ended ended = run(folder.path(), arguments);
    CHECK(ended.status == 0);
    CHECK(ended.err.empty());
    return ended.out;
  };
  const auto rows = nlohmann::json::parse(with_format("json"));
  REQUIRE(rows.size() == 4);
  for (const Column& column : result_columns()) CHECK(rows[0].contains(column.name));
  CHECK(rows[0]["policy"] ==
        "h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy");
  CHECK(rows[0]["budget"] == 51);
  CHECK(rows[0]["budget_request"] == "10%");
  CHECK(rows[0]["attention_recall"].get<double>() == Approx(0.227).margin(5e-4));

  const std::string csv = with_format("csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 5);
  CHECK_THAT(
      csv,
      Contains(
          "\"h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy\"") &&
          Contains(rows[0]["attention_recall"].dump()));
  CHECK_THAT(with_format("table"), Contains("0.2268") && Contains("all, mean"));
}

TEST_CASE("cli: kvsim policies says what a preset sets and what it reproduces") {
  const TemporaryFolder folder;
  const Ended one = run(folder.path(), {"policies", "h2o"});
  REQUIRE(one.status == 0);
  for (const Preset& preset : find_policy("h2o").presets) {
    CHECK_THAT(one.out, Contains("preset=" + preset.name) && Contains(preset.reproduces));
    if (preset.acausal) continue;
    CHECK_THAT(one.out, Contains(Spec("h2o:preset=" + preset.name).text()));
  }
}

TEST_CASE("cli: --per-step records when each token left and what each step lost") {
  const TemporaryFolder folder;
  const Ended ended =
      run(folder.path(), {"replay", sample_trace(), "--policy", "window", "--budget", "51",
                          "--layers", "2", "--per-step", "steps.h5"});
  REQUIRE(ended.status == 0);
  const H5::H5File file((folder.path() / "steps.h5").string(), H5F_ACC_RDONLY);
  const H5::Group unit = file.openGroup("/sequences/held-out-text/layers/2/kv_heads/3");
  std::int64_t budget = 0;
  unit.openAttribute("budget").read(H5::PredType::NATIVE_INT64, &budget);
  CHECK(budget == 51);
  std::string policy;
  const H5::Attribute attribute = unit.openAttribute("policy");
  attribute.read(attribute.getDataType(), policy);
  CHECK(policy == "window");
  std::vector<std::int32_t> evicted_after(512);
  unit.openDataSet("evicted_after").read(evicted_after.data(), H5::PredType::NATIVE_INT32);
  for (int token = 0; token < 512; ++token)
    CHECK(evicted_after[token] == std::min(token + 51, 512));
  std::vector<float> recall(2 * 512);
  unit.openDataSet("attention_recall").read(recall.data(), H5::PredType::NATIVE_FLOAT);
  CHECK(recall[50] == 1.0F);
  CHECK(recall[511] < 1.0F);
}

TEST_CASE("cli: --per-step does not overwrite the trace that it replays") {
  const TemporaryFolder folder;
  std::filesystem::copy(sample_trace(), folder / "t.h5");
  const Ended ended = run(folder.path(), {"replay", "t.h5", "--policy", "window", "--budget", "51",
                                          "--per-step", "./t.h5"});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.err, Contains("is the trace itself"));
  CHECK(run(folder.path(), {"verify", "t.h5"}).status == 0);
}

TEST_CASE("cli: a bad number ends a replay but what was finished before is printed and written") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "20", "--no-output"}).status == 0);
  {
    const H5::H5File file((folder / "t.h5").string(), H5F_ACC_RDWR);
    traces_test::set_number(file, "/sequences/synthetic/layers/1/key", {0, 7, 3},
                            std::numeric_limits<float>::quiet_NaN());
  }
  const Ended ended =
      run(folder.path(), {"replay", "t.h5", "--policy", "window", "--budget", "5", "--threads", "1",
                          "--quiet", "--format", "json", "--per-step", "steps.h5"});
  CHECK(ended.status == 3);
  CHECK_THAT(ended.err, Contains("/sequences/synthetic/layers/1/key"));
  CHECK(nlohmann::json::parse(ended.out).size() == 2);
  const H5::H5File steps((folder / "steps.h5").string(), H5F_ACC_RDONLY);
  CHECK(steps.nameExists("/sequences/synthetic/layers/0/kv_heads/1"));
  CHECK_FALSE(steps.nameExists("/sequences/synthetic/layers/1"));
}

TEST_CASE("cli: a share of the budget is of the sequence in stream mode, else of the prompt") {
  const TemporaryFolder folder;
  const auto row_in = [&](const std::string& mode) {
    const Ended ended = run(
        folder.path(), {"replay", sample_trace(), "--policy", "tova", "--budget", "0.1", "--mode",
                        mode, "--layers", "0", "--heads", "0", "--quiet", "--format", "json"});
    return nlohmann::json::parse(ended.out)[0];
  };
  CHECK(row_in("stream")["budget"] == 51);
  CHECK(row_in("stream")["steps"] == 512);
  CHECK(row_in("prefill")["budget"] == 38);
  CHECK(row_in("prefill")["steps"] == 128);
}

TEST_CASE("cli: prefill mode needs a prompt") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "20"}).status == 0);
  const Ended ended = run(
      folder.path(), {"replay", "t.h5", "--policy", "tova", "--budget", "5", "--mode", "prefill"});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.err, Contains("'synthetic' has no prompt"));
}

TEST_CASE("cli: export prints what a sweep kept, and every row says how to make it again") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"sweep", sample_trace(), "--policies", "h2o;random", "--budgets",
                              "5%,64", "--layers", "1", "--seed", "7", "-o", "r.sqlite"})
              .status == 0);
  const auto rows =
      nlohmann::json::parse(run(folder.path(), {"export", "r.sqlite", "--format", "json"}).out);
  REQUIRE(rows.size() == 2 * 4 * 2 * 2);
  const nlohmann::json& row = rows[5];
  std::filesystem::create_directory(folder.path() / "again");
  const Ended again = run(folder.path() / "again",
                          {"replay",   row["trace"],        "--sequences", row["sequence"],
                           "--layers", row["layer"].dump(), "--heads",     row["kv_head"].dump(),
                           "--policy", row["policy"],       "--budget",    row["budget_request"],
                           "--mode",   row["mode"],         "--seed",      row["seed"].dump(),
                           "--device", row["device"],       "--format",    "json"});
  CHECK(agree(nlohmann::json::parse(again.out)[0], row));
}

TEST_CASE("cli: equal budgets and a trace named twice are replayed once") {
  const TemporaryFolder folder;
  const Ended ended = run(folder.path(), {"sweep", sample_trace(), sample_trace(), "--policies",
                                          "window", "--budgets", "10%,51", "-o", "r.sqlite"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, Contains("kvsim: 32 replays of 32 units"));
}

}  // namespace kvsim::cli_test::verbs_test
