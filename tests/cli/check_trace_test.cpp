#include <catch2/catch.hpp>

#include "tests/cli/program.h"
#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::check_trace_test {

using Catch::Contains;

struct Folder : traces_test::TemporaryFolder {
  Folder() { traces_test::write_small_trace(*this / "t.h5", traces_test::small_header()); }
};

const std::string kKey = "/sequences/a/layers/0/key";

TEST_CASE("cli: check says what of a trace agrees with its digests") {
  const Folder folder;
  const Ended ended = run(folder.path(), {"check", "t.h5"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, Contains("agrees") && Contains("t.h5: trace of version 2: its manifest"));
}

TEST_CASE("cli: check finds a number that was changed, by dataset and head") {
  const Folder folder;
  traces_test::set_number(traces_test::edit(folder / "t.h5"), kKey, {1, 0, 0}, 0.75F);
  const Ended ended = run(folder.path(), {"check", "t.h5"});
  CHECK(ended.status == 3);
  CHECK(ended.out.empty());
  CHECK_THAT(ended.err, Contains(kKey) && Contains("t.h5"));
}

TEST_CASE("cli: check reads a trace of version 1 and says that it has no digests") {
  const Folder folder;
  traces_test::make_version_1(folder / "t.h5", "earlier");
  const Ended sound = run(folder.path(), {"check", "t.h5"});
  CHECK(sound.status == 0);
  CHECK_THAT(sound.out, Contains("has no digests") && Contains("kvsim convert"));
  traces_test::set_number(traces_test::edit(folder / "t.h5"), kKey, {1, 0, 0}, INFINITY);
  CHECK(run(folder.path(), {"check", "t.h5"}).status == 3);
}

}  // namespace kvsim::cli_test::check_trace_test
