#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"

namespace kvsim::traces_test::broken_files_test {

using H5::PredType;

const std::string kKey = "/sequences/a/layers/0/key";

TEST_CASE("a file that is no trace is rejected by name") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  CHECK(error_of_reading(file) == file.string() + ": expected a trace file, found no such file");
  std::ofstream(file) << "not a trace";
  CHECK_THAT(error_of_reading(file), Catch::StartsWith(file.string()) &&
                                         Catch::Contains("found one that is not HDF5") &&
                                         Catch::Contains("python -m kvsim.record writes one"));
  std::filesystem::resize_file(file, 0);
  CHECK_THAT(error_of_reading(file), Catch::Contains("found one that is not HDF5"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  CHECK_THAT(error_of_reading(file), Catch::Contains("expected a trace file, found a directory"));
}

TEST_CASE("a truncated file is rejected by name") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  write_small_trace(file, small_header());
  const auto whole = std::filesystem::file_size(file);
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t{100}}) {
    std::filesystem::resize_file(file, size);
    CHECK_THAT(error_of_reading(file),
               Catch::StartsWith(file.string()) && Catch::Contains("truncated or damaged"));
  }
}

TEST_CASE("damaged data is rejected by name") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  write_small_trace(file, small_header());
  haddr_t address = HADDR_UNDEF;
  {
    const H5::H5File h5 = edit(file);
    const H5::DataSet key = h5.openDataSet(kKey);
    const hsize_t second_head[] = {1, 0, 0};
    hsize_t bytes = 0;
    unsigned filters = 0;
    H5Dget_chunk_info_by_coord(key.getId(), second_head, &filters, &address, &bytes);
  }
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(address))
      .write("damage", 6);
  CHECK_THAT(error_of_reading(file),
             Catch::Contains("/key: expected data that HDF5 can read, found damage in head 1"));
}

TEST_CASE("a filter that HDF5 lacks is rejected by number") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  write_small_trace(file, small_header());
  make_version_1(file);
  {
    H5::DSetCreatPropList properties;
    const hsize_t chunk[] = {2, kSmallTokens, 4};
    properties.setChunk(3, chunk);
    H5Pset_filter(properties.getId(), 32999, H5Z_FLAG_OPTIONAL, 0, nullptr);
    const H5::DataSet key =
        set_dataset(edit(file), kKey, PredType::IEEE_F32LE, {2, kSmallTokens, 4}, properties);
    const hsize_t start[] = {0, 0, 0};
    H5Dwrite_chunk(key.getId(), H5P_DEFAULT, 0, start, 6, "packed");
  }
  CHECK_THAT(
      error_of_reading(file),
      Catch::Contains("/key: expected filters that this HDF5 library has, found filter 32999"));
}

}  // namespace kvsim::traces_test::broken_files_test
