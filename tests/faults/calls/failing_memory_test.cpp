#include <catch2/catch.hpp>

#include "tests/faults/calls/writing_commands.h"

namespace kvsim::faults::failing_memory_test {

using traces_test::TemporaryFolder;

TEST_CASE("faults: whichever new fails, the program ends in one line and the output is whole") {
  const TemporaryFolder folder;
  write_input(folder);
  const WritingCommand& command = *GENERATE(&kWriteTrace, &kConvert, &kSweep, &kPerStep);
  const bool all_later_ones = GENERATE(false, true);
  fail_every_call(folder.path(), command, {"new", 1, all_later_ones}, stride_of(907));
}

// libhdf5 and OpenSSL do not survive everywhere: they may end the program by exit(-1) or a signal.
TEST_CASE("faults: whichever malloc fails, of a library too, no output is wrong") {
  const TemporaryFolder folder;
  write_input(folder);
  const WritingCommand& command = *GENERATE(&kWriteTrace, &kConvert, &kSweep, &kPerStep);
  fail_every_call(folder.path(), command, {"memory"}, stride_of(3001),
                  [&](const cli_test::Ended& ended) {
                    if (ended.status >= 0 && ended.status != 255) return false;
                    CHECK(contents(folder.path(), "made.h5").empty());
                    CHECK(contents(folder.path(), "steps.h5").empty());
                    CHECK(cli_test::run(folder.path(), command.arguments).status == 0);
                    return true;
                  });
}

}  // namespace kvsim::faults::failing_memory_test
