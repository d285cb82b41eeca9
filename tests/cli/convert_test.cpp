#include <catch2/catch.hpp>

#include "tests/cli/program.h"
#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::cli_test::convert_test {

using Catch::Contains;

struct Folder : traces_test::TemporaryFolder {
  Folder() { traces_test::write_small_trace(*this / "old.h5", traces_test::small_header()); }
};

TEST_CASE("cli: convert writes the newest version and prints its trace_id") {
  const Folder folder;
  traces_test::make_version_1(folder / "old.h5", "earlier");
  const Ended ended = run(folder.path(), {"convert", "old.h5", "-o", "new.h5"});
  CHECK(ended.status == 0);
  CHECK(ended.out == "new.h5: version 2, trace_id " + Trace(folder / "new.h5").id() + "\n");
  CHECK_THAT(run(folder.path(), {"info", "new.h5"}).out, Contains("earlier"));
}

TEST_CASE("cli: convert names what it leaves out") {
  const Folder folder;
  traces_test::set_dataset(traces_test::edit(folder / "old.h5"), "/notes", H5::PredType::NATIVE_INT,
                           {3});
  const Ended ended = run(folder.path(), {"convert", "old.h5", "-o", "new.h5"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, Contains("left out, as the format does not know it: /notes\n"));
}

TEST_CASE("cli: convert never writes into the trace itself") {
  const Folder folder;
  std::filesystem::create_symlink("old.h5", folder / "link.h5");
  const std::string before = Trace(folder / "old.h5").id();
  for (const char* file : {"old.h5", "link.h5", "./old.h5", ""}) {
    const Ended ended = run(folder.path(), {"convert", "old.h5", "-o", file});
    CHECK(ended.status == 2);
    CHECK_THAT(ended.err, Catch::StartsWith("kvsim: error: --output: "));
  }
  CHECK(Trace(folder / "old.h5").id() == before);
}

}  // namespace kvsim::cli_test::convert_test
