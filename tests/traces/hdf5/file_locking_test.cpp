#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::traces_test::file_locking_test {

/// Holds an exclusive lock of a file, as another program may, or a file system that cannot lock
/// behaves.
class Locked {
 public:
  explicit Locked(const std::filesystem::path& file) : descriptor_(open(file.c_str(), O_RDWR)) {
    REQUIRE(flock(descriptor_, LOCK_EX | LOCK_NB) == 0);
  }
  ~Locked() { close(descriptor_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  int descriptor_;
};

TEST_CASE("a trace opens and is read while another program holds a lock of it") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  const Locked lock(folder / "t.h5");
  CHECK_THROWS(H5::H5File((folder / "t.h5").string(), H5F_ACC_RDONLY));  // the library's way
  const Trace trace(folder / "t.h5");
  CHECK(trace.header().model == "small");
  CHECK_FALSE(trace.sequences().empty());
}

TEST_CASE("a trace opens while this process has the file open with a lock") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  const H5::H5File opened((folder / "t.h5").string(), H5F_ACC_RDONLY);
  CHECK(Trace(folder / "t.h5").header().model == "small");
}

}  // namespace kvsim::traces_test::file_locking_test
