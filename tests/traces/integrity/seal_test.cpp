#include "traces/integrity/seal.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim::traces_test::seal_test {

using Catch::Matchers::Contains;

TEST_CASE("sealing a file gives it the digests and the id that its writer would") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  const std::string id = Trace(folder / "t.h5").id();
  {
    const H5::Group root = edit(folder / "t.h5").openGroup("/");
    root.removeAttr("trace_id");
    root.unlink("manifest");
  }
  CHECK_THROWS_AS(Trace(folder / "t.h5"), DataError);
  seal_again(folder / "t.h5");
  CHECK(Trace(folder / "t.h5").id() == id);
  CHECK(error_of_reading(folder / "t.h5").empty());
}

TEST_CASE("sealing keeps the digests that a dataset has") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  set_number(edit(folder / "t.h5"), kActivation, {0, 0}, 3);
  seal_trace(folder / "t.h5");
  CHECK_THAT(error_of_reading(folder / "t.h5"), Contains("/mlp_activation: expected digest"));
}

TEST_CASE("a sealed file lists heads that were not written as such") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  set_dataset(edit(folder / "t.h5"), kLayer + "/key", H5::PredType::IEEE_F32LE,
              {2, kSmallTokens, 4});
  seal_again(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  CHECK(trace.sequences().front().layers.front().kv_heads.empty());
  CHECK(error_of_reading(folder / "t.h5").empty());
}

TEST_CASE("a head with a digest of which nothing was written is not sealed as a missing one") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  {
    const H5::DataSet key = set_dataset(edit(folder / "t.h5"), kLayer + "/key",
                                        H5::PredType::IEEE_F32LE, {2, kSmallTokens, 4});
    write_digests(key, {0, 7});
  }
  const std::string lost =
      "/key: expected head 1 with digest 0000000000000007, found nothing of it";
  CHECK_THAT(error_of_reading(folder / "t.h5"), Contains(lost));
  CHECK_THROWS_WITH(seal_trace(folder / "t.h5"), Contains(lost));
}

TEST_CASE("numbers that are not finite are not sealed") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  set_number(edit(folder / "t.h5"), kActivation, {2, 1}, std::nanf(""));
  CHECK_THROWS_WITH(seal_again(folder / "t.h5"), Contains("expected finite numbers, found nan"));
}

TEST_CASE("files that are written have checksums in their structure") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  const H5::H5File file(folder / "t.h5", H5F_ACC_RDONLY);
  H5F_info2_t info;
  REQUIRE(H5Fget_info2(file.getId(), &info) >= 0);
  CHECK(info.super.version == 3);
  for (const std::string& path : {kGradient, std::string("/manifest")}) {
    H5O_info_t header;
    H5Oget_info_by_name(file.getId(), path.c_str(), &header, H5P_DEFAULT);
    CHECK(header.hdr.version == 2);
  }
}

}  // namespace kvsim::traces_test::seal_test
