#include "traces/integrity/check_trace.h"

#include <catch2/catch.hpp>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"

namespace kvsim::traces_test::check_trace_test {

using Catch::Matchers::Contains;

struct FullTrace {
  FullTrace() { write_full_trace(file); }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "t.h5";
};

TEST_CASE("a check reads all heads of all datasets") {
  const FullTrace full;
  int calls = 0;
  const TraceCheck check = check_trace(Trace(full.file), [&] { ++calls; });
  CHECK(check.version == 2);
  // Two layers of 4; sinks, selected tokens, residual, gradients, activations; the projection; 4 of
  // spans, 3 of tokens; rope.
  CHECK(check.datasets == 2 * 4 + 5 + 1 + 4 + 3 + 1);
  CHECK(check.heads == 2 * (4 + 2 + 2 + 4) + (1 + 1 + 1 + 8 + 1) + 1 + 4 + 3 + 1);
  CHECK(calls == check.heads);
}

TEST_CASE("a check finds what no verb reads") {
  const FullTrace full;
  SECTION("a head of a unit that is not complete") {
    set_dataset(edit(full.file), kLayer + "/value", H5::PredType::IEEE_F32LE, {2, kSmallTokens, 3});
    seal_again(full.file);
    set_number(edit(full.file), kLayer + "/key", {1, 0, 0}, 0.75f);
    CHECK_THROWS_WITH(check_trace(Trace(full.file)),
                      Contains("/layers/0/key: expected digest ") && Contains(" of head 1"));
    CHECK(error_of_reading(full.file).empty());
  }
  SECTION("token ids of a sequence without layers") {
    const std::vector<std::int32_t> ids{1, 2, 3, 4, 5};
    const H5::H5File h5 = edit(full.file);
    set_dataset(h5, "/sequences/a/token_ids", H5::PredType::STD_I32LE, {kSmallTokens})
        .write(ids.data(), H5::PredType::NATIVE_INT32);
    h5.unlink("/sequences/a/layers/0");
    h5.unlink("/sequences/a/layers/1");
    seal_again(full.file);
    set_number(edit(full.file), "/sequences/a/token_ids", {4}, 6);
    CHECK_THROWS_WITH(check_trace(Trace(full.file)), Contains("/token_ids: expected digest "));
  }
}

TEST_CASE("of a trace of version 1 there is nothing to check") {
  const FullTrace full;
  make_version_1(full.file);
  const TraceCheck check = check_trace(Trace(full.file));
  CHECK(check.version == 1);
  CHECK(check.heads == 0);
}

TEST_CASE("a check ends when its interrupt check throws") {
  const FullTrace full;
  struct Stop {};
  CHECK_THROWS_AS(check_trace(Trace(full.file), [] { throw Stop(); }), Stop);
}

}  // namespace kvsim::traces_test::check_trace_test
