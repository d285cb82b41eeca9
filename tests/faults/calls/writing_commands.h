#pragma once

#include <catch2/catch.hpp>

#include "tests/faults/calls/failing_program.h"
#include "tests/support/temporary_folder.h"

// Commands that write the three kinds of files, each of a small trace on one thread; two ways to
// write a trace.

namespace kvsim::faults {

inline const std::vector<std::string> kSynth{"synth", "--tokens",      "24", "--layers",
                                             "1",     "--query-heads", "2",  "--kv-heads",
                                             "2",     "--head-dim",    "8",  "-o"};

inline std::vector<std::string> with(std::vector<std::string> words,
                                     const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline const WritingCommand kWriteTrace{with(kSynth, {"made.h5"}), "made.h5"};
inline const WritingCommand kConvert{{"convert", "t.h5", "--quiet", "-o", "made.h5"}, "made.h5"};
inline const WritingCommand kSweep{{"sweep", "t.h5", "--policies", "window;h2o", "--budgets", "4",
                                    "--threads", "1", "--quiet", "-o", "results.sqlite"},
                                   "results.sqlite"};
inline const WritingCommand kPerStep{{"replay", "t.h5", "--policy", "h2o", "--budget", "4",
                                      "--threads", "1", "--per-step", "steps.h5"},
                                     "steps.h5"};

/// Writes "t.h5", which the commands read.
inline void write_input(const traces_test::TemporaryFolder& folder) {
  REQUIRE(cli_test::run(folder.path(), with(kSynth, {"t.h5"})).status == 0);
  std::filesystem::remove(folder / "out");
  std::filesystem::remove(folder / "err");
}

}  // namespace kvsim::faults
