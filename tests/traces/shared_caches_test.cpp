#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/integrity/convert_trace.h"
#include "traces/trace.h"

namespace kvsim::traces_test::shared_caches_test {

using Catch::Contains;

/// Layer 1 reads the keys and values of layer 0; it has six query heads on two KV heads.
void write_shared(const std::filesystem::path& file, const LayerAttributes& reader) {
  TraceWriter writer(file, small_header(), ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  const LayerNumbers numbers = numbered_layer(small_header(), kSmallTokens, 0);
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, numbers.output);
  writer.write_layer(1, numbered_heads(6, kSmallTokens, 4, 100), {}, {},
                     numbered_heads(6, kSmallTokens, 3, 50), reader);
  writer.close();
}

std::vector<Matrix> joined(const std::vector<Matrix>& first, int first_size,
                           const std::vector<Matrix>& second, int second_size, int kv_head) {
  std::vector<Matrix> heads;
  for (int i = 0; i < first_size; ++i) heads.push_back(first[kv_head * first_size + i]);
  for (int i = 0; i < second_size; ++i) heads.push_back(second[kv_head * second_size + i]);
  return heads;
}

void check_shared(const Trace& trace) {
  const std::vector<LayerInfo>& layers = trace.sequences().front().layers;
  CHECK(layers[0].readers == std::vector{1});
  CHECK(layers[0].kv_heads == std::vector{0, 1});
  CHECK(layers[1].kv_from == 0);
  CHECK(layers[1].kv_heads.empty());
  const LayerNumbers numbers = numbered_layer(small_header(), kSmallTokens, 0);
  for (const int kv_head : {0, 1}) {
    const UnitName name{"a", 0, kv_head};
    const Unit unit = trace.read_unit(name);
    const auto queries =
        joined(numbers.query, 2, numbered_heads(6, kSmallTokens, 4, 100), 3, kv_head);
    CHECK(unit.query == queries);
    CHECK(unit.key == numbers.key[kv_head]);
    CHECK(trace.read_output(name) ==
          joined(numbers.output, 2, numbered_heads(6, kSmallTokens, 3, 50), 3, kv_head));
    UnitPart part;
    trace.read_unit(name, {.vectors = false}).rows->read(0, part);
    CHECK(part.query == queries);
  }
}

TEST_CASE("a unit has the queries of all layers that read its cache") {
  const TemporaryFolder folder;
  write_shared(folder / "t.h5", {.kv_from = 0});
  const Trace trace(folder / "t.h5");
  check_shared(trace);
  CHECK_THROWS_WITH(trace.read_unit({"a", 1, 0}),
                    Contains("its queries are in the units of layer 0"));
  CHECK(convert_trace(trace, folder / "copy.h5", {}).empty());
  check_shared(Trace(folder / "copy.h5"));
}

TEST_CASE("layers that share a cache have to attend alike") {
  const TemporaryFolder folder;
  const auto [reader, words] = GENERATE(
      std::pair{LayerAttributes{.sliding_window = 3, .kv_from = 0}, "expected the sliding_window"},
      std::pair{LayerAttributes{.kv_from = 0, .scale = 0.25}, "expected the scale of layer 0"},
      std::pair{LayerAttributes{.kv_from = 1}, "expected an earlier layer with keys and values"},
      std::pair{LayerAttributes{.kv_from = 7}, "expected an earlier layer with keys and values"});
  write_shared(folder / "t.h5", reader);
  CHECK_THROWS_WITH(Trace(folder / "t.h5"),
                    Contains("/sequences/a/layers/1: attribute kv_from: " + std::string(words)));
}

TEST_CASE("a layer has its own cache or reads another one") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  set_integer(edit(folder / "t.h5").openGroup("/sequences/a/layers/1"), "kv_from", 0);
  CHECK_THROWS_WITH(Trace(folder / "t.h5"),
                    Contains("/layers/1/key: expected none, as the layer reads those of layer 0"));
}

}  // namespace kvsim::traces_test::shared_caches_test
