#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/format_versions.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/sha256.h"
#include "traces/trace.h"

namespace kvsim::traces_test::trace_id_test {

TEST_CASE("SHA-256 gives the digests of the standard") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a file is digested as its bytes are") {
  const TemporaryFolder folder;
  const std::string bytes((std::size_t{1} << 20) + 17, 'x');
  std::ofstream(folder / "bytes") << bytes;
  CHECK(sha256_of_file(folder / "bytes") == sha256(bytes));
  CHECK_THROWS_WITH(sha256_of_file(folder / "none"), Catch::Contains("none: expected a file"));
}

TEST_CASE("the trace_id follows the numbers alone") {
  const TemporaryFolder folder;
  TraceHeader header = small_header();
  write_small_trace(folder / "one.h5", header);
  header.model = "another";
  write_small_trace(folder / "two.h5", header);
  header.shape.rope->inverse_frequency[1] = 0.25;
  write_small_trace(folder / "three.h5", header);
  const std::string id = Trace(folder / "one.h5").id();
  CHECK(id.size() == 64);
  CHECK(Trace(folder / "two.h5").id() == id);
  CHECK(Trace(folder / "three.h5").id() != id);
}

TEST_CASE("a trace of version 1 without a trace_id is known by the digest of its file") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  make_version_1(folder / "t.h5");
  CHECK(Trace(folder / "t.h5").id() == sha256_of_file(folder / "t.h5"));
}

}  // namespace kvsim::traces_test::trace_id_test
