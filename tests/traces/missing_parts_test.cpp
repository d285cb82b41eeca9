#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::traces_test::missing_parts_test {

using Catch::Matchers::Contains;
using H5::PredType;

const std::string kLayer = "/sequences/a/layers/0";

/// Replaces a dataset by one of which only these heads, or their first tokens, are written.
void write_only(const H5::H5File& file, const std::string& name, hsize_t heads, hsize_t dim,
                const std::vector<hsize_t>& written, hsize_t tokens = kSmallTokens) {
  H5::DSetCreatPropList properties;
  const hsize_t chunk[] = {1, 2, dim};
  properties.setChunk(3, chunk);
  const H5::DataSet dataset = set_dataset(file, kLayer + "/" + name, PredType::IEEE_F32LE,
                                          {heads, kSmallTokens, dim}, properties);
  const std::vector<float> numbers(tokens * dim, 1.5f);
  for (const hsize_t head : written) {
    const H5::DataSpace space = dataset.getSpace();
    const hsize_t start[] = {head, 0, 0};
    const hsize_t count[] = {1, tokens, dim};
    space.selectHyperslab(H5S_SELECT_SET, count, start);
    dataset.write(numbers.data(), PredType::NATIVE_FLOAT, H5::DataSpace(3, count), space);
  }
}

struct SmallTrace {
  SmallTrace() { write_small_trace(file, small_header()); }

  LayerInfo layer() const { return Trace(file).sequences().front().layers.front(); }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "t.h5";
};

TEST_CASE("a layer that was not recorded is missing, and the rest can be read") {
  const SmallTrace small;
  edit(small.file).unlink(kLayer);
  seal_again(small.file);
  const Trace trace(small.file);
  REQUIRE(trace.sequences().front().layers.size() == 1);
  CHECK(trace.sequences().front().layers.front().index == 1);
  CHECK(trace.read_unit({"a", 1, 0}).num_tokens() == kSmallTokens);
  CHECK_THROWS_WITH(trace.read_unit({"a", 0, 0}),
                    Contains("/sequences/a/layers: expected layer 0, found nothing recorded"));
}

TEST_CASE("a KV head without its key, value or a query head is missing") {
  const SmallTrace small;
  SECTION("key") { write_only(edit(small.file), "key", 2, 4, {1}); }
  SECTION("value") { write_only(edit(small.file), "value", 2, 3, {1}); }
  SECTION("query") { write_only(edit(small.file), "query", 4, 4, {0, 2, 3}); }
  seal_again(small.file);
  const Trace trace(small.file);
  CHECK(trace.sequences().front().layers.front().kv_heads == std::vector<int>{1});
  CHECK(trace.read_unit({"a", 0, 1}).num_tokens() == kSmallTokens);
  CHECK_THROWS_WITH(trace.read_unit({"a", 0, 0}),
                    Contains("/layers/0: expected KV head 0, found nothing recorded of it"));
}

TEST_CASE("storage that was never written holds no head") {
  const SmallTrace small;
  set_dataset(edit(small.file), kLayer + "/key", PredType::IEEE_F32LE, {2, kSmallTokens, 4});
  seal_again(small.file);
  CHECK(small.layer().kv_heads.empty());
}

TEST_CASE("a head written in part is an error") {
  const SmallTrace small;
  write_only(edit(small.file), "key", 2, 4, {1}, 2);
  CHECK_THROWS_WITH(Trace(small.file), Contains("/key: expected all of head 1 or nothing of it, "
                                                "found 1 of 3 chunks; record the layer again"));
}

TEST_CASE("outputs may be missing") {
  const SmallTrace small;
  SECTION("altogether") { edit(small.file).unlink(kLayer + "/output"); }
  SECTION("for one query head") { write_only(edit(small.file), "output", 4, 3, {0, 1, 3}); }
  seal_again(small.file);
  CHECK_FALSE(small.layer().has_output);
  CHECK_THROWS_WITH(Trace(small.file).read_output({"a", 0, 1}),
                    Contains("/layers/0/output: expected query head 2, found nothing recorded"));
}

TEST_CASE("what is not in the trace is named with what is") {
  const SmallTrace small;
  const Trace trace(small.file);
  CHECK_THROWS_WITH(trace.read_unit({"b", 0, 0}),
                    Contains("/sequences: expected one of \"a\", found \"b\""));
  CHECK_THROWS_AS(trace.read_unit({"a", 2, 0}), DataError);
  CHECK_THROWS_AS(trace.read_unit({"a", 0, -1}), DataError);
  CHECK_THROWS_AS(trace.read_output({"a", 0, 2}), DataError);
}

}  // namespace kvsim::traces_test::missing_parts_test
