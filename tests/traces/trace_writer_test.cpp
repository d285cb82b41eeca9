#include "traces/trace_writer.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::traces_test::trace_writer_test {

using Catch::Matchers::Contains;

TEST_CASE("a trace appears under its name only when it is closed") {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  CHECK_FALSE(std::filesystem::exists(folder / "t.h5"));
  CHECK(folder.num_partial("t.h5") == 1);
  writer.close();
  CHECK(std::filesystem::exists(folder / "t.h5"));
  CHECK(folder.num_partial("t.h5") == 0);
}

TEST_CASE("an unfinished trace leaves nothing behind and the old file alone") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  {
    TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
    writer.begin_sequence("b", kSmallTokens, 0, "", {});
  }
  CHECK(folder.num_partial("t.h5") == 0);
  CHECK(Trace(folder / "t.h5").sequences().front().name == "a");
}

TEST_CASE("a file that cannot be written is named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(TraceWriter(folder / "no/t.h5", small_header(), ElementType::float16),
                    Contains("no/t.h5: cannot be written: No such file or directory"));
}

TEST_CASE("datasets are stored head by head, shuffled and packed") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  const H5::H5File file = edit(folder / "t.h5");
  const auto properties = file.openDataSet("/sequences/a/layers/0/query").getCreatePlist();
  hsize_t chunk[3] = {};
  properties.getChunk(3, chunk);
  CHECK(std::vector<hsize_t>(chunk, chunk + 3) == std::vector<hsize_t>{1, kSmallTokens, 4});
  CHECK(properties.getNfilters() == 2);
  // An optional filter is left out where it finds no memory, and equal traces have other bytes.
  for (const H5Z_filter_t filter : {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE}) {
    CAPTURE(filter);
    unsigned flags = 0;
    std::size_t num_values = 0;
    unsigned config = 0;
    REQUIRE(H5Pget_filter_by_id2(properties.getId(), filter, &flags, &num_values, nullptr, 0,
                                 nullptr, &config) >= 0);
    CHECK((flags & H5Z_FLAG_OPTIONAL) == 0);
  }
}

TEST_CASE("a number that does not fit float16 is refused with its place") {
  const TemporaryFolder folder;
  LayerNumbers numbers = numbered_layer(small_header(), kSmallTokens, 0);
  numbers.value[1](0, 0) = 70000;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  CHECK_THROWS_WITH(writer.write_layer(0, numbers.query, numbers.key, numbers.value, {}),
                    Contains("/sequences/a/layers/0/value: expected numbers finite in float16, "
                             "found 70000 at [1, 0, 0]"));
}

TEST_CASE("layers of the wrong shape and out of turn are refused") {
  const TemporaryFolder folder;
  LayerNumbers numbers = numbered_layer(small_header(), kSmallTokens, 0);
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  const auto write = [&] { writer.write_layer(0, numbers.query, numbers.key, numbers.value, {}); };
  CHECK_THROWS_WITH(write(), "write_layer: no sequence has begun");
  CHECK_THROWS_WITH(writer.begin_sequence("a/b", kSmallTokens, 0, "", {}), Contains("a/b"));
  CHECK_THROWS_WITH(writer.begin_sequence("a", kSmallTokens, 0, "", {1}), Contains("token_ids"));
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  numbers.key.pop_back();
  CHECK_THROWS_WITH(write(), "value: expected 1 matrices [5, 3]");
  writer.close();
  CHECK_THROWS_AS(writer.close(), std::invalid_argument);
}

}  // namespace kvsim::traces_test::trace_writer_test
