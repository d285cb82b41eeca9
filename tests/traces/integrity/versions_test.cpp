#include <catch2/catch.hpp>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"

namespace kvsim::traces_test::versions_test {

const UnitName kUnit{"a", 0, 1};

struct BothVersions {
  BothVersions() {
    write_full_trace(folder / "2.h5");
    std::filesystem::copy(folder / "2.h5", folder / "1.h5");
    make_version_1(folder / "1.h5", "an id");
  }

  TemporaryFolder folder;
};

TEST_CASE("both versions give the same numbers, spans and attributes") {
  const BothVersions both;
  const Trace old(both.folder / "1.h5");
  const Trace now(both.folder / "2.h5");
  CHECK(old.header().version == 1);
  CHECK(old.id() == "an id");
  const Unit one = old.read_unit(kUnit);
  const Unit two = now.read_unit(kUnit);
  CHECK(one.query == two.query);
  CHECK(one.key == two.key);
  CHECK(one.value == two.value);
  CHECK(one.spans == two.spans);
  CHECK(one.sink_logit == two.sink_logit);
  CHECK(one.output_projection == two.output_projection);
  CHECK(one.output_score_grad == two.output_score_grad);
  CHECK(one.residual_square == two.residual_square);
  CHECK(one.rope->inverse_frequency == two.rope->inverse_frequency);
  CHECK(old.read_output(kUnit) == now.read_output(kUnit));
}

TEST_CASE("numbers of version 1 are read unchecked") {
  const BothVersions both;
  set_number(edit(both.folder / "1.h5"), kLayer + "/key", {1, 0, 0}, 0.75f);
  CHECK(error_of_reading(both.folder / "1.h5").empty());
  CHECK(Trace(both.folder / "1.h5").read_unit(kUnit).key(0, 0) == 0.75f);
}

}  // namespace kvsim::traces_test::versions_test
