// What the programs of others store of the sample trace's keys and values, against what the
// combinators store that stand for them.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "policies/registry/spec.h"
#include "sim/outputs/stored_cache.h"
#include "traces/trace.h"

namespace kvsim::conformance::stores_test {

using Json = nlohmann::json;

const std::filesystem::path kSample = KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5";
const std::filesystem::path kStores = KVSIM_SOURCE_DIR "/tests/conformance/stores";

/// The largest difference from the vectors of the program, of the largest number of each.
double difference(const Json& tokens, const Json& vectors,
                  const std::function<std::span<const float>(int)>& vector_of) {
  double largest = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto expected = vectors[i].get<std::vector<double>>();
    const std::span<const float> found = vector_of(tokens[i].get<int>());
    REQUIRE(found.size() == expected.size());
    double size = 0;
    for (const double x : expected) size = std::max(size, std::fabs(x));
    for (std::size_t c = 0; c < found.size(); ++c) {
      largest = std::max(largest, std::fabs(double{found[c]} - expected[c]) / size);
    }
  }
  return largest;
}

/// Shows the store of the case's policy a unit, step by step, with nothing evicted.
void check(const Trace& sample, const Json& golden) {
  CAPTURE(golden["name"].get<std::string>());
  const Json& name = golden["unit"];
  const Unit unit = sample.read_unit({name["sequence"], name["layer"], name["head"]});
  const Rules rules = Spec(golden["policy"].get<std::string>()).rules({.budget = 512});
  const int prompt = golden["prompt"].get<int>();
  StoredCache cache(unit, rules, prompt, 1);
  std::vector<std::int32_t> held;
  const double tolerance = golden.value("tolerance", 1e-6);
  for (const Json& stored : golden["stored"]) {
    const int last = stored["after"].get<int>();
    for (auto step = static_cast<int>(held.size()); step <= last; ++step) {
      held.push_back(step);
      cache.begin(step, held);
      cache.settle(held, step + 1 < prompt);
    }
    CAPTURE(last);
    const Json& tokens = stored["tokens"];
    if (stored.contains("keys")) {
      const auto key = [&](int token) { return cache.at(token).key; };
      CHECK(difference(tokens, stored["keys"], key) <= tolerance);
    }
    if (stored.contains("values")) {
      const auto value = [&](int token) { return cache.at(token).value; };
      CHECK(difference(tokens, stored["values"], value) <= tolerance);
    }
  }
}

TEST_CASE("stores restore the keys and values that the authors' programs restore") {
  const Trace sample(kSample);
  int num_cases = 0;
  for (const auto& file : std::filesystem::directory_iterator(kStores)) {
    std::ifstream stream(file.path());
    const Json program = Json::parse(stream);
    CAPTURE(file.path().filename().string());
    CHECK(program["commit"].get<std::string>().size() == 40);
    for (const Json& golden : program["cases"]) {
      check(sample, golden);
      ++num_cases;
    }
  }
  CHECK(num_cases >= 6);
}

}  // namespace kvsim::conformance::stores_test
