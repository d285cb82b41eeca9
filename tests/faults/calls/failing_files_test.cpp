#include <catch2/catch.hpp>

#include "tests/faults/calls/writing_commands.h"

namespace kvsim::faults::failing_files_test {

using traces_test::TemporaryFolder;

TEST_CASE("faults: whichever write, sync, rename or opening of a file fails, no output is wrong") {
  const TemporaryFolder folder;
  write_input(folder);
  const WritingCommand& command = *GENERATE(&kWriteTrace, &kConvert, &kSweep, &kPerStep);
  const std::string kinds = GENERATE("write", "sync", "rename", "open");
  const bool all_later_ones = GENERATE(false, true);
  const int stride = stride_of(&command == &kSweep ? 15 : 3);  // SQLite writes a lot
  fail_every_call(folder.path(), command, {kinds, 1, all_later_ones}, stride);
}

}  // namespace kvsim::faults::failing_files_test
