#include <H5Cpp.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "traces/synth/synth.h"
#include "traces/trace.h"

namespace kvsim::unit_rows_test {

const UnitName kName{"synthetic", 0, 1};
constexpr int kTokens = 9000;  // more than two parts

SynthOptions long_text() {
  SynthOptions options;
  options.tokens = kTokens;
  options.layers = 1;
  options.head_dim = 6;
  options.value_dim = 2;
  options.output = false;
  return options;
}

TEST_CASE("a unit read part by part has the vectors of one read at once") {
  const Trace trace = synthesize(long_text());
  const Unit whole = trace.read_unit(kName);
  const bool values = GENERATE(true, false);
  const Unit unit = trace.read_unit(kName, {.vectors = false, .values = values});
  CHECK(unit.num_tokens() == kTokens);
  CHECK(unit.group_size() == whole.group_size());
  CHECK((unit.key.rows() == 0 && unit.key.cols() == 6));
  CHECK((unit.value.rows() == 0 && unit.value.cols() == 2));
  REQUIRE(unit.rows != nullptr);
  UnitPart part;
  int parts = 0;
  for (int first = 0; first < kTokens; first = part.end()) {
    unit.rows->read(first, part);
    ++parts;
    REQUIRE(part.first == first);
    const Eigen::Index count = part.key.rows();
    REQUIRE(count > 0);
    CHECK(part.key == whole.key.middleRows(first, count));
    for (int head = 0; head < whole.group_size(); ++head) {
      CHECK(part.query[head] == whole.query[head].middleRows(first, count));
    }
    if (values) CHECK(part.value == whole.value.middleRows(first, count));
    if (!values) CHECK(part.value.rows() == 0);
  }
  CHECK(parts > 2);
}

TEST_CASE("a part may begin at any token, and the trace may be gone") {
  std::shared_ptr<UnitRows> rows;
  Matrix key;
  {
    const Trace trace = synthesize(long_text());
    key = trace.read_unit(kName).key;
    rows = trace.read_unit(kName, {.vectors = false}).rows;
  }
  UnitPart part;
  rows->read(8970, part);
  CHECK(part.end() == kTokens);
  CHECK(part.key == key.bottomRows(30));
  rows->read(17, part);
  CHECK(part.key.row(0) == key.row(17));
}

TEST_CASE("a part says what is wrong with its numbers") {
  const traces_test::TemporaryFolder folder;
  synthesize(folder / "t.h5", long_text());
  {
    const H5::H5File file((folder / "t.h5").string(), H5F_ACC_RDWR);
    traces_test::set_number(file, "/sequences/synthetic/layers/0/key", {1, 8000, 3}, NAN);
  }
  const Unit unit = Trace(folder / "t.h5").read_unit(kName, {.vectors = false});
  UnitPart part;
  CHECK_NOTHROW(unit.rows->read(0, part));
  CHECK_THROWS_AS(unit.rows->read(part.end(), part), DataError);
  CHECK_THROWS_WITH(unit.rows->read(4096, part), Catch::Contains("nan at [1, 8000, 3]"));
}

TEST_CASE("logits that may not fit are found across parts") {
  const traces_test::TemporaryFolder folder;
  SynthOptions options = long_text();
  options.elements = ElementType::float32;
  synthesize(folder / "t.h5", options);
  {
    const H5::H5File file((folder / "t.h5").string(), H5F_ACC_RDWR);
    traces_test::set_number(file, "/sequences/synthetic/layers/0/key", {1, 5, 0}, 1e30F);
    traces_test::set_number(file, "/sequences/synthetic/layers/0/query", {2, 8000, 0}, 1e30F);
  }
  const Unit unit = Trace(folder / "t.h5").read_unit(kName, {.vectors = false});
  UnitPart part;
  CHECK_NOTHROW(unit.rows->read(0, part));
  CHECK_THROWS_WITH(unit.rows->read(4096, part), Catch::Contains("logits fit float32"));
}

}  // namespace kvsim::unit_rows_test
