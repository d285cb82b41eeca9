#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::traces_test::parts_test {

constexpr int kTokens = 5000;  // more than one part
const UnitName kUnit{"a", 0, 0};

void write_long_trace(const std::filesystem::path& file) {
  TraceHeader header = small_header();
  header.num_layers = header.shape.num_query_heads = header.shape.num_kv_heads = 1;
  header.shape.head_dim = header.shape.value_dim = 2;
  header.shape.rope.reset();
  TraceWriter writer(file, header, ElementType::float32);
  writer.begin_sequence("a", kTokens, 0, "", {});
  const std::vector<Matrix> rows{Matrix::Random(kTokens, 2)};
  writer.write_layer(0, rows, rows, rows, {});
  writer.close();
}

TEST_CASE("a unit that is read part by part is checked with its last part") {
  const TemporaryFolder folder;
  write_long_trace(folder / "t.h5");
  const auto change = GENERATE(as<std::string>(), "query", "key", "value");
  set_number(edit(folder / "t.h5"), "/sequences/a/layers/0/" + change, {0, 1, 1}, 9);
  const Unit unit = Trace(folder / "t.h5").read_unit(kUnit, {.vectors = false});
  UnitPart part;
  unit.rows->read(0, part);
  REQUIRE(part.end() < kTokens);
  CHECK_THROWS_WITH(unit.rows->read(part.end(), part),
                    Catch::Contains("/" + change + ": expected digest "));
}

TEST_CASE("a reader may begin again, and anywhere") {
  const TemporaryFolder folder;
  write_long_trace(folder / "t.h5");
  const Unit unit = Trace(folder / "t.h5").read_unit(kUnit, {.vectors = false});
  UnitPart part;
  unit.rows->read(0, part);
  const int second = part.end();
  unit.rows->read(0, part);
  unit.rows->read(second, part);
  CHECK(part.end() == kTokens);
  unit.rows->read(7, part);
  unit.rows->read(part.end(), part);
  CHECK(part.end() == kTokens);
}

}  // namespace kvsim::traces_test::parts_test
