#include "tests/conformance/golden_sets.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kvsim::conformance {
namespace {

using nlohmann::json;

// Four tokens per hexadecimal digit, the first token in the highest bit of the first digit.
Tokens tokens_of(const std::string& digits) {
  Tokens tokens;
  for (std::size_t i = 0; i < 4 * digits.size(); ++i) {
    const int digit = std::stoi(digits.substr(i / 4, 1), nullptr, 16);
    if ((digit >> (3 - i % 4)) & 1) tokens.push_back(static_cast<std::int32_t>(i));
  }
  return tokens;
}

GoldenUnit unit_of(const json& text) {
  GoldenUnit unit{.name = {text.at("sequence"), text.at("layer"), text.at("head")}, .kept = {}};
  if (text.contains("kept")) {
    for (const auto& [step, digits] : text.at("kept").items()) {
      unit.kept[std::stoi(step)] = tokens_of(digits);
    }
    return unit;
  }
  const std::vector<std::int32_t> evicted_after = text.at("evicted_after");
  const int first = text.at("steps").at(0);
  const int last = text.at("steps").at(1);
  for (int step = first; step <= last; ++step) {
    unit.kept[step] = kept_after(evicted_after, step);
  }
  return unit;
}

GoldenCase case_of(const json& text) {
  const std::string mode = text.at("mode");
  GoldenCase golden{.name = text.at("name"),
                    .settings = text.at("settings"),
                    .policy = text.at("policy"),
                    .budget = text.at("budget"),
                    .mode = mode == "stream" ? Mode::stream : Mode::prefill,
                    .mode_text = mode,
                    .eviction_interval = mode.ends_with("interval=never") ? kNeverEvict : 1,
                    .query_heads = text.at("heads") == "query",
                    .share = text.value("share", 1.0),
                    .cause = text.value("cause", ""),
                    .units = {}};
  for (const json& unit : text.at("units")) golden.units.push_back(unit_of(unit));
  return golden;
}

}  // namespace

int GoldenCase::num_sets() const {
  int sets = 0;
  for (const GoldenUnit& unit : units) sets += static_cast<int>(unit.kept.size());
  return sets;
}

GoldenProgram read_golden_sets(const std::filesystem::path& file) {
  const json text = json::parse(std::ifstream(file));
  const bool has_version = text.contains("version");
  GoldenProgram program{.original = text.at("original"),
                        .source = text.at("source"),
                        .release = text.at(has_version ? "version" : "commit"),
                        .date = has_version ? "" : text.at("date"),
                        .made = text.at("made"),
                        .cases = {}};
  for (const json& one : text.at("cases")) program.cases.push_back(case_of(one));
  return program;
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(KVSIM_SOURCE_DIR) / "tests/conformance/golden")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> all;
  for (const auto& file : golden_files()) {
    for (GoldenCase& golden : read_golden_sets(file).cases) all.push_back(std::move(golden));
  }
  return all;
}

Tokens kept_after(const std::vector<std::int32_t>& evicted_after, int step) {
  Tokens tokens;
  for (std::int32_t token = 0; token <= step; ++token) {
    if (evicted_after[static_cast<std::size_t>(token)] > step) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace kvsim::conformance
