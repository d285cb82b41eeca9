#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/integrity/convert_trace.h"
#include "traces/trace.h"

namespace kvsim::traces_test::layer_shapes_test {

using Catch::Contains;

const Rope kOfHeader{{1, 0.125}, "half", 1};
const Rope kOfSequence{{1, 0.25}, "half", 1};
const Rope kOfLayer{{0.5}, "interleaved", 2};

/// The same model in which layer 1 has one KV head, larger keys and smaller values.
TraceHeader other_header() {
  TraceHeader header = small_header();
  header.shape.num_query_heads = 3;
  header.shape.num_kv_heads = 1;
  header.shape.head_dim = 6;
  header.shape.value_dim = 2;
  return header;
}

/// Sequence "a" rotates as the header says, "b" otherwise, and its layer 1 in a third way.
void write_layers(TraceWriter& writer) {
  for (const bool is_second : {false, true}) {
    writer.begin_sequence(is_second ? "b" : "a", kSmallTokens, 0, "", {},
                          is_second ? std::optional<Rope>(kOfSequence) : std::nullopt);
    const LayerNumbers first = numbered_layer(small_header(), kSmallTokens, 0);
    writer.write_layer(0, first.query, first.key, first.value, first.output);
    const LayerNumbers second = numbered_layer(other_header(), kSmallTokens, 1);
    writer.write_layer(
        1, second.query, second.key, second.value, second.output,
        {.scale = 0.125, .rope = is_second ? std::optional(kOfLayer) : std::nullopt});
    if (!is_second) writer.write_projection(1, Matrix::Constant(6, 7, 0.5f));
  }
}

void write_file(const std::filesystem::path& file) {
  TraceWriter writer(file, small_header(), ElementType::float16);
  write_layers(writer);
  writer.close();
}

void check_shapes(const Trace& trace) {
  CHECK(trace.header().shape == small_header().shape);
  for (const SequenceInfo& sequence : trace.sequences()) {
    const bool is_second = sequence.name == "b";
    LayerShape expected = small_header().shape;
    if (is_second) expected.rope = kOfSequence;
    CHECK(sequence.layers[0].shape == expected);
    expected = other_header().shape;
    expected.scale = 0.125;
    expected.rope = is_second ? kOfLayer : kOfHeader;
    CHECK(sequence.layers[1].shape == expected);
    CHECK(sequence.layers[1].kv_heads == std::vector{0});

    const LayerNumbers numbers = numbered_layer(other_header(), kSmallTokens, 1);
    const UnitName name{sequence.name, 1, 0};
    const Unit unit = trace.read_unit(name);
    CHECK(unit.query == numbers.query);
    CHECK(unit.key == numbers.key[0]);
    CHECK(unit.value == numbers.value[0]);
    CHECK(unit.scale == 0.125f);
    CHECK(unit.rope == expected.rope);
    CHECK(unit.output_projection == std::vector<Matrix>(3, Matrix::Constant(2, 7, 0.5f)));
    CHECK(trace.read_output(name) == numbers.output);
    UnitPart part;
    trace.read_unit(name, {.vectors = false}).rows->read(0, part);
    CHECK(part.query == numbers.query);
    CHECK(trace.read_unit({sequence.name, 0, 1}).group_size() == 2);
  }
}

TEST_CASE("layers may differ in heads, dimensions, scale and rotation") {
  const TemporaryFolder folder;
  write_file(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  check_shapes(trace);
  TraceWriter writer(small_header(), ElementType::float16);
  write_layers(writer);
  const Trace in_memory = writer.open();
  check_shapes(in_memory);
  CHECK(in_memory.id() == trace.id());
}

TEST_CASE("a copy keeps the shapes of layers") {
  const TemporaryFolder folder;
  write_file(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  CHECK(convert_trace(trace, folder / "copy.h5", {}).empty());
  check_shapes(Trace(folder / "copy.h5"));
  CHECK(Trace(folder / "copy.h5").id() == trace.id());
}

TEST_CASE("the manifest guards the shapes of layers") {
  const TemporaryFolder folder;
  write_file(folder / "t.h5");
  SECTION("a scale") {
    edit(folder / "t.h5").openGroup("/sequences/a/layers/1").removeAttr("scale");
    CHECK_THROWS_WITH(Trace(folder / "t.h5"), Contains("/sequences/a/layers/1/scale"));
  }
  SECTION("a rotation") {
    edit(folder / "t.h5").unlink("/sequences/b/layers/1/rope");
    CHECK_THROWS_WITH(Trace(folder / "t.h5"), Contains("/sequences/b/layers/1/rope"));
  }
  SECTION("the rotation of a sequence") {
    edit(folder / "t.h5").unlink("/sequences/b/rope");
    CHECK_THROWS_WITH(Trace(folder / "t.h5"), Contains("/sequences/b/rope"));
  }
}

TEST_CASE("a layer has the same heads in every sequence") {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  for (const auto& [name, header] : {std::pair{"a", small_header()}, {"b", other_header()}}) {
    writer.begin_sequence(name, kSmallTokens, 0, "", {});
    const LayerNumbers numbers = numbered_layer(header, kSmallTokens, 0);
    writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
  }
  writer.close();
  CHECK_THROWS_WITH(Trace(folder / "t.h5"),
                    Contains("/sequences/b/layers/0: attribute head_dim: expected 4, as of the "
                             "layer in another sequence, found 6"));
}

TEST_CASE("a rotation has to fit the layer that it rotates") {
  const TemporaryFolder folder;
  TraceHeader narrow = small_header();
  narrow.shape.head_dim = 2;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  const LayerNumbers numbers = numbered_layer(narrow, kSmallTokens, 0);
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
  writer.close();
  CHECK_THROWS_WITH(Trace(folder / "t.h5"),
                    Contains("/sequences/a/layers/0/rope: expected at most 1 frequencies, as "
                             "head_dim is 2, found the 2 of the file or sequence"));
}

}  // namespace kvsim::traces_test::layer_shapes_test
