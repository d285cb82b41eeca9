#include "sim/results/score_file.h"

#include <H5Cpp.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::score_file_test {

using namespace test_support;
using traces_test::TemporaryFolder;

using Scores = std::map<std::string, std::vector<float>>;  // by unit

/// Random scores of as many tokens of each sequence, in the file that kvzip reads.
Scores write_scores(const std::filesystem::path& name, int of_a, int of_b) {
  std::mt19937 random(1);
  Scores scores;
  H5::H5File file(name.string(), H5F_ACC_TRUNC);
  for (const auto& [sequence, count] : std::map<std::string, int>{{"a", of_a}, {"b", of_b}}) {
    for (const int layer : {0, 1}) {
      for (const int head : {0, 1}) {
        std::vector<float> drawn(static_cast<std::size_t>(count));
        for (float& score : drawn) score = static_cast<float>(random() % 1000) / 1000;
        std::string group;
        const std::vector<std::string> path = {"sequences", sequence,
                                               "layers",    std::to_string(layer),
                                               "kv_heads",  std::to_string(head)};
        for (const std::string& part : path) {
          group += '/' + part;
          if (!file.nameExists(group)) file.createGroup(group);
        }
        traces_test::set_dataset(file, group + "/scores", H5::PredType::IEEE_F32LE, {drawn.size()})
            .write(drawn.data(), H5::PredType::NATIVE_FLOAT);
        scores[name_of({sequence, layer, head})] = drawn;
      }
    }
  }
  return scores;
}

std::map<std::string, std::vector<std::int32_t>> evicted_after(SweepRequest wanted) {
  wanted.trajectories = true;
  std::map<std::string, std::vector<std::int32_t>> found;
  const std::atomic<bool> interrupted = false;
  run_sweep(plan_sweep(wanted), *make_cpu_backend(), interrupted,
            [&](const PlannedUnit& unit, const std::vector<Outcome>& outcomes) {
              found.emplace(name_of(unit.unit.name), outcomes.front().trajectory.evicted_after);
            });
  return found;
}

/// Evicts one token after each step that holds more than the budget: of those from `sinks` on the
/// one with the lowest score, of equals the first.
std::vector<std::int32_t> simulated(const std::vector<float>& scores, int num_tokens, int budget,
                                    int sinks, int first_eviction) {
  std::vector<std::int32_t> leaves(static_cast<std::size_t>(num_tokens), num_tokens);
  for (int step = first_eviction; step < num_tokens; ++step) {
    std::vector<std::int32_t> held;
    for (int token = 0; token <= step; ++token) {
      if (leaves[static_cast<std::size_t>(token)] == num_tokens) held.push_back(token);
    }
    const auto overflow = static_cast<int>(held.size()) - budget;
    if (overflow <= 0) continue;
    std::vector<std::int32_t> candidates(held.begin() + sinks, held.end());
    std::stable_sort(candidates.begin(), candidates.end(), [&](int a, int b) {
      return scores[static_cast<std::size_t>(a)] < scores[static_cast<std::size_t>(b)];
    });
    for (int i = 0; i < overflow; ++i) leaves[static_cast<std::size_t>(candidates[i])] = step;
  }
  return leaves;
}

struct Files {
  TemporaryFolder folder;
  SweepRequest wanted(std::string_view settings) const {
    const std::string path = (folder / "s.h5").string();
    return request(folder / "t.h5", fmt::format("kvzip:file={}{}", path, settings), {"6"});
  }
};

TEST_CASE("kvzip keeps the first tokens of a prompt and those with the highest scores",
          "[replay]") {
  const Files files;
  write_random_trace(files.folder / "t.h5", 1);
  const Scores scores = write_scores(files.folder / "s.h5", kPrompt, kPrompt);
  for (const int sinks : {0, 4}) {
    SweepRequest wanted = files.wanted(fmt::format(",sinks={}", sinks));
    wanted.protocol = {.mode = Mode::prefill, .eviction_interval = kNeverEvict};
    const auto found = evicted_after(wanted);
    REQUIRE(found.size() == kUnits);
    for (const auto& [unit, leaves] : found) {
      CAPTURE(unit, sinks);
      std::vector<std::int32_t> expected =
          simulated(scores.at(unit), kPrompt, 6, sinks, kPrompt - 1);
      const auto num_tokens = static_cast<std::int32_t>(leaves.size());
      std::replace(expected.begin(), expected.end(), std::int32_t{kPrompt}, num_tokens);
      expected.resize(leaves.size(), num_tokens);  // what comes after the prompt stays
      CHECK(leaves == expected);
    }
  }
}

TEST_CASE("kvzip evicts by the scores of the whole text where it was read twice", "[replay]") {
  const Files files;
  write_random_trace(files.folder / "t.h5", 1);
  const Scores scores = write_scores(files.folder / "s.h5", kLongSequence, kShortSequence);
  for (const auto& [unit, leaves] : evicted_after(files.wanted(",reads=text"))) {
    CAPTURE(unit);
    CHECK(leaves == simulated(scores.at(unit), static_cast<int>(leaves.size()), 6, 4, 0));
  }
}

TEST_CASE("heads that share a cache go by the mean of their scores, at each budget", "[replay]") {
  const Files files;
  write_random_trace(files.folder / "t.h5", 1);
  const Scores scores = write_scores(files.folder / "s.h5", kLongSequence, kShortSequence);
  for (const int budget : {6, 9}) {
    SweepRequest wanted = files.wanted(",reads=text+shared");
    wanted.budgets = {Amount::parse_budget(std::to_string(budget), "")};
    for (const auto& [unit, leaves] : evicted_after(wanted)) {
      CAPTURE(unit, budget);
      const std::string layer = unit.substr(0, unit.size() - 1);
      std::vector<float> sums = scores.at(layer + "0");
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += scores.at(layer + "1")[i];
      CHECK(leaves == simulated(sums, static_cast<int>(leaves.size()), budget, 4, 0));
    }
  }
}

template <class Error>
std::string refused(const SweepRequest& wanted) {
  try {
    evicted_after(wanted);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a file of scores that does not fit is refused, naming what is wrong", "[replay]") {
  const Files files;
  write_random_trace(files.folder / "t.h5", 1);
  write_scores(files.folder / "s.h5", kPrompt, kPrompt);
  const char* path = "/sequences/b/layers/1/kv_heads/0/scores";
  CHECK_THROWS_WITH(Spec("kvzip"), Catch::Contains("kvzip:file=PATH"));
  CHECK_THAT(refused<UsageError>(files.wanted("")), Catch::Contains("--eviction-interval never"));
  CHECK_THAT(refused<DataError>(files.wanted(",reads=text")),
             Catch::Contains("shape [40]") && Catch::Contains("[10]") &&
                 Catch::Contains("kvsim.second_reading"));
  SweepRequest wanted = files.wanted("");
  wanted.protocol = {.mode = Mode::prefill, .eviction_interval = kNeverEvict};
  CHECK(refused<DataError>(wanted) == "");
  SECTION("a score is no number") {
    const H5::H5File file = traces_test::edit(files.folder / "s.h5");
    const std::vector<float> none(kPrompt, std::numeric_limits<float>::quiet_NaN());
    file.openDataSet(path).write(none.data(), H5::PredType::NATIVE_FLOAT);
    CHECK_THAT(refused<DataError>(wanted),
               Catch::Contains(path) && Catch::Contains("finite") && Catch::Contains("nan at [0]"));
  }
  SECTION("a unit has none, which is found before anything is replayed") {
    traces_test::edit(files.folder / "s.h5").unlink(path);
    CHECK_THROWS_WITH(plan_sweep(wanted), Catch::Contains("/sequences/b/layers/1/kv_heads/0"));
  }
  SECTION("they are of another type") {
    traces_test::set_dataset(traces_test::edit(files.folder / "s.h5"), path,
                             H5::PredType::STD_I32LE, {kPrompt});
    CHECK_THAT(refused<DataError>(wanted), Catch::Contains("float32") && Catch::Contains("int32"));
  }
  SECTION("the file has changed") {
    wanted = files.wanted(",sha256=" + std::string(64, '0'));
    wanted.protocol = {.mode = Mode::prefill, .eviction_interval = kNeverEvict};
    CHECK_THAT(refused<DataError>(wanted),
               Catch::Contains("expected the scores with SHA-256") && Catch::Contains("changed"));
  }
}

TEST_CASE("scores of another text are refused where the file says whose they are", "[replay]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  write_scores(path, kPrompt, kPrompt);
  const UnitName unit{"a", 0, 0};
  const std::vector<std::int32_t> ids = {7, 8, 9, 7, 8};
  const std::string id = "96c5ea30c324e2084a260029c4888133450172841f0cd48a2cb50e25f2b2fc28";
  CHECK(ScoreFile(path).read(unit, kPrompt, ids).size() == kPrompt);
  traces_test::set_text(traces_test::edit(path).openGroup("/sequences/a"), "text_id", id);
  CHECK(ScoreFile(path).read(unit, kPrompt, ids).size() == kPrompt);
  CHECK(ScoreFile(path).read(unit, kPrompt, {}).size() == kPrompt);
  const std::vector<std::int32_t> others = {7, 8, 9, 7, 7};
  CHECK_THROWS_WITH(
      ScoreFile(path).read(unit, kPrompt, others),
      Catch::Contains("/sequences/a") && Catch::Contains(id) && Catch::Contains("another text"));
}

}  // namespace kvsim::score_file_test
