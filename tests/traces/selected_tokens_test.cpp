#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/integrity/convert_trace.h"
#include "traces/integrity/seal.h"
#include "traces/trace.h"

namespace kvsim::traces_test::selected_tokens_test {

using Catch::Contains;

const std::string kSelected = "/sequences/a/layers/1/selected";

std::vector<std::int32_t> at(const SelectedTokens& selected, int step) {
  const auto tokens = selected.at(step);
  return {tokens.begin(), tokens.end()};
}

/// A step selects itself and, of those before it, the one of half its number.
SelectedTokens halves() {
  SelectedTokens selected;
  for (int step = 0; step < kSmallTokens; ++step) {
    std::vector<std::int32_t> tokens{step / 2, step};
    if (step == 0) tokens.pop_back();
    selected.add(tokens);
  }
  return selected;
}

void write_selecting(const std::filesystem::path& file, const LayerAttributes& attributes = {}) {
  TraceWriter writer(file, small_header(), ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  for (const int layer : {0, 1}) {
    const LayerNumbers numbers = numbered_layer(small_header(), kSmallTokens, layer);
    const bool has_cache = layer == 0 || !attributes.kv_from;
    writer.write_layer(layer, numbers.query, has_cache ? numbers.key : std::vector<Matrix>(),
                       has_cache ? numbers.value : std::vector<Matrix>(), numbers.output,
                       layer == 0 ? LayerAttributes() : attributes);
    if (layer == 1) writer.write_selected(halves());
  }
  writer.close();
}

/// Puts other rows of two tokens in the place of those of the file.
void replace_selected(const std::filesystem::path& file, const std::vector<std::int32_t>& rows,
                      const H5::DataType& type = H5::PredType::STD_I32LE) {
  {
    const H5::H5File h5(file.string(), H5F_ACC_RDWR);
    h5.unlink(kSelected);
    const hsize_t shape[] = {rows.size() / 2, 2};
    h5.createDataSet(kSelected, type, H5::DataSpace(2, shape))
        .write(rows.data(), H5::PredType::NATIVE_INT32);
  }
  seal_trace(file);
}

TEST_CASE("what a model selects is read as it was written") {
  const TemporaryFolder folder;
  write_selecting(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  const std::vector<LayerInfo>& layers = trace.sequences().front().layers;
  CHECK_FALSE(layers[0].has(Dataset::selected));
  CHECK(layers[1].recorded.at(Dataset::selected) == std::vector{kSmallTokens, 2});
  CHECK(trace.read_unit({"a", 0, 0}).selected == nullptr);
  const auto selected = trace.read_unit({"a", 1, 0}).selected;
  REQUIRE(selected != nullptr);
  CHECK(selected->num_steps() == kSmallTokens);
  CHECK(at(*selected, 0) == std::vector{0});
  CHECK(at(*selected, 1) == std::vector{0, 1});
  CHECK(at(*selected, kSmallTokens - 1) == std::vector{(kSmallTokens - 1) / 2, kSmallTokens - 1});
  CHECK(selected->contains(1, 0));
  CHECK_FALSE(selected->contains(0, 1));
  CHECK(trace.read_unit({"a", 1, 1}).selected == selected);  // read once for all heads
}

TEST_CASE("a copy of a trace selects the same, and has the same id") {
  const TemporaryFolder folder;
  write_selecting(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  convert_trace(trace, folder / "copy.h5", {});
  const Trace copy(folder / "copy.h5");
  CHECK(copy.id() == trace.id());
  const auto selected = copy.read_unit({"a", 1, 0}).selected;
  REQUIRE(selected != nullptr);
  for (int step = 0; step < kSmallTokens; ++step) CHECK(at(*selected, step) == at(halves(), step));
}

TEST_CASE("a selection that no model makes is refused with its place") {
  const TemporaryFolder folder;
  write_selecting(folder / "t.h5");
  std::vector<std::int32_t> rows;
  for (int step = 0; step < kSmallTokens; ++step) rows.insert(rows.end(), {step, -1});
  const auto refused = [&](int step, std::int32_t first, std::int32_t second,
                           const std::string& expected, const std::string& found) {
    std::vector<std::int32_t> changed = rows;
    changed[2 * step] = first;
    changed[2 * step + 1] = second;
    replace_selected(folder / "t.h5", changed);
    CHECK_THROWS_WITH(Trace(folder / "t.h5"), Contains(kSelected) &&
                                                  Contains("expected " + expected) &&
                                                  Contains("found " + found));
  };
  refused(2, 1, 3, "tokens in 0..2, the step itself", "3 at [2]");
  refused(2, -2, 1, "tokens in 0..2, the step itself", "-2 at [2]");
  refused(3, 2, 1, "ascending tokens", "2, then 1 at [3]");
  refused(3, 2, 2, "ascending tokens", "2, then 2 at [3]");
  refused(1, -1, 0, "a token that the step selects", "-1 alone at [1]");
  refused(1, -1, -1, "a token that the step selects", "-1 alone at [1]");
}

TEST_CASE("a step selects a token inside its window and its chunk") {
  const TemporaryFolder folder;
  std::vector<std::int32_t> rows;
  for (int step = 0; step < kSmallTokens; ++step) rows.insert(rows.end(), {step / 2, -1});
  write_selecting(folder / "t.h5", {.sliding_window = 2});
  replace_selected(folder / "t.h5", rows);
  CHECK_THROWS_WITH(
      Trace(folder / "t.h5"),
      Contains("expected a token in the sliding window of 2, found 1 at most at [3]"));
  write_selecting(folder / "t.h5", {.attention_chunk = 3});
  replace_selected(folder / "t.h5", rows);
  CHECK_THROWS_WITH(Trace(folder / "t.h5"),
                    Contains("expected a token in the chunk of 3, found 1 at most at [3]"));
}

TEST_CASE("a selection of another type or length is refused") {
  const TemporaryFolder folder;
  write_selecting(folder / "t.h5");
  const std::vector<std::int32_t> none(2 * kSmallTokens, 0);
  const auto refused = [&](const std::string& expected, const std::string& found) {
    CHECK_THROWS_WITH(Trace(folder / "t.h5"), Contains(kSelected) &&
                                                  Contains("expected " + expected) &&
                                                  Contains("found " + found));
  };
  replace_selected(folder / "t.h5", none, H5::PredType::STD_I64LE);
  refused("int32", "int64");
  replace_selected(folder / "t.h5", {0, -1});
  refused("shape [" + std::to_string(kSmallTokens) + ", K]", "[1, 2]");
}

TEST_CASE("layers that share a cache see the same tokens") {
  const TemporaryFolder folder;
  write_selecting(folder / "t.h5", {.kv_from = 0});
  CHECK_THROWS_WITH(Trace(folder / "t.h5"),
                    Contains("kv_from") && Contains("layers that see the same tokens"));
}

TEST_CASE("a selection has to be of all steps of the sequence") {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  CHECK_THROWS_WITH(writer.write_selected(halves()), "write_selected: no layer was written");
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  const LayerNumbers numbers = numbered_layer(small_header(), kSmallTokens, 0);
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, numbers.output);
  SelectedTokens one;
  one.add(std::vector<std::int32_t>{0});
  CHECK_THROWS_WITH(writer.write_selected(one), Contains("selected: expected the tokens of"));
}

}  // namespace kvsim::traces_test::selected_tokens_test
