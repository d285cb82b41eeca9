#include "traces/hdf5/hdf5_output.h"

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace kvsim::traces_test::hdf5_output_test {

using Catch::Matchers::Contains;

TEST_CASE("a disk without room is noticed before HDF5 writes, and nothing is left behind") {
  const TemporaryFolder folder;
  {
    Hdf5Output output(folder / "t.h5");
    bool called = false;
    CHECK_THROWS_WITH(output.write(std::uintmax_t{1} << 60, [&](H5::H5File&) { called = true; }),
                      Contains("t.h5: cannot be written") && Contains("KiB are needed"));
    CHECK_FALSE(called);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what is no regular file is not replaced") {
  CHECK_THROWS_WITH(Hdf5Output("/dev/null"), Contains("/dev/null: cannot be written"));
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("an HDF5 file replaces an older one only when it is committed") {
  const TemporaryFolder folder;
  const auto has_group = [&](const char* name) {
    return H5::H5File((folder / "t.h5").string(), H5F_ACC_RDONLY).nameExists(name);
  };
  for (const char* name : {"old", "new"}) {
    Hdf5Output output(folder / "t.h5");
    output.write(0, [&](H5::H5File& file) { file.createGroup(name); });
    if (name == std::string("new")) CHECK(has_group("old"));
    output.commit();
    CHECK(has_group(name));
  }
  CHECK(folder.num_partial("t.h5") == 0);
}

}  // namespace kvsim::traces_test::hdf5_output_test
