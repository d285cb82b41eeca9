#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/synth/synth.h"

namespace kvsim::traces_test::trace_in_memory_test {

using Catch::Matchers::Contains;

Trace small_trace_in_memory() {
  const TraceHeader header = small_header();
  TraceWriter writer(header, ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 2, "a source", {7, 8, 9, 7, 8});
  for (int layer = 0; layer < header.num_layers; ++layer) {
    const LayerNumbers numbers = numbered_layer(header, kSmallTokens, layer);
    writer.write_layer(layer, numbers.query, numbers.key, numbers.value, numbers.output,
                       {.sliding_window = layer == 1 ? std::optional<int>(3) : std::nullopt});
  }
  return writer.open();
}

void check_same(const Trace& trace, const Trace& other) {
  CHECK(trace.id() == other.id());
  REQUIRE(trace.sequences().size() == other.sequences().size());
  const UnitName name{trace.sequences().front().name, 0, 1};
  const Unit unit = trace.read_unit(name);
  const Unit same = other.read_unit(name);
  CHECK(unit.query == same.query);
  CHECK(unit.key == same.key);
  CHECK(unit.value == same.value);
  CHECK(unit.token_ids == same.token_ids);
  CHECK(unit.key_bytes == same.key_bytes);
}

TEST_CASE("a trace in memory is the one that a file would hold") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  const Trace in_memory = small_trace_in_memory();
  CHECK(in_memory.in_memory());
  CHECK_FALSE(Trace(folder / "t.h5").in_memory());
  check_same(in_memory, Trace(folder / "t.h5"));
}

TEST_CASE("the bytes of a trace are a trace") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  const Trace file(folder / "t.h5");
  const Trace in_memory = small_trace_in_memory();
  const Trace copy = Trace::from_image(in_memory.image());
  check_same(copy, in_memory);
  check_same(Trace::from_image(copy.image()), file);
  check_same(Trace::from_image(file.image()), file);
  CHECK_THROWS_AS(Trace::from_image("no trace"), DataError);
}

TEST_CASE("errors of a trace in memory say so") {
  CHECK_THROWS_WITH(small_trace_in_memory().read_unit({"b", 0, 0}), Contains("trace in memory: "));
}

TEST_CASE("synth in memory makes the trace that it writes") {
  const TemporaryFolder folder;
  const SynthOptions options{.tokens = 20, .layers = 1, .seed = 4};
  synthesize(folder / "t.h5", options);
  check_same(synthesize(options), Trace(folder / "t.h5"));
}

}  // namespace kvsim::traces_test::trace_in_memory_test
