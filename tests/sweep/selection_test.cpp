#include "sim/sweep/selection.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::selection_test {

using namespace test_support;

std::vector<std::string> selected(const Trace& trace, const Selection& selection) {
  std::vector<std::string> names;
  for (const SelectedUnit& unit : select_units(trace, selection)) {
    names.push_back(fmt::format("{}{}{}", unit.name.sequence, unit.name.layer, unit.name.kv_head));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("units are selected by sequence, layer and KV head", "[sweep]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  CHECK(selected(trace, {}) == Names{"a00", "a01", "a10", "a11", "b00", "b01", "b10", "b11"});
  CHECK(selected(trace, {{"b"}, {}, {}}) == Names{"b00", "b01", "b10", "b11"});
  CHECK(selected(trace, {{}, {1}, {}}) == Names{"a10", "a11", "b10", "b11"});
  CHECK(selected(trace, {{}, {}, {0}}) == Names{"a00", "a10", "b00", "b10"});
  CHECK(selected(trace, {{"a"}, {1}, {0}}) == Names{"a10"});
  CHECK(selected(trace, {{"b", "a", "a"}, {1, 1}, {1, 0}}) == Names{"a10", "a11", "b10", "b11"});
}

TEST_CASE("a selected unit knows its lengths", "[sweep]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const auto units = select_units(Trace(folder / "t.h5"), {{"b"}, {}, {}});
  REQUIRE(units.size() == 4);
  CHECK(units[0].num_tokens == kShortSequence);
  CHECK(units[0].prompt_length == kPrompt);
}

TEST_CASE("selecting what is not there is an error that names the option and what there is",
          "[sweep]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  CHECK_THROWS_AS(select_units(trace, {{"aa"}, {}, {}}), UsageError);
  CHECK_THROWS_WITH(select_units(trace, {{"a", "aa"}, {}, {}}),
                    Catch::Contains("--sequences") && Catch::Contains("'a'"));
  CHECK_THROWS_WITH(select_units(trace, {{}, {0, 2}, {}}),
                    Catch::Contains("--layers") && Catch::Contains("2") && Catch::Contains("0, 1"));
  CHECK_THROWS_WITH(select_units(trace, {{}, {}, {-1}}),
                    Catch::Contains("--heads") && Catch::Contains("0, 1"));
}

}  // namespace kvsim::selection_test
