#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace kvsim::faults {

/// Which call fails, of those that a run of the program makes: failing_calls.c.
struct FailingCall {
  std::string kinds;    ///< "write", "sync", "rename", "open", "memory", "new"
  std::int64_t at = 1;  ///< the first that fails, from 1
  bool all_later_ones = false;
};

/// A run of the program in which a call failed, or none, if it makes fewer than FailingCall::at.
struct FaultyEnd {
  cli_test::Ended ended;
  bool has_failed = false;
};

/// cli_test::run() with a failing call. Of files, only those of `folder` count.
FaultyEnd run_failing(const std::filesystem::path& folder,
                      const std::vector<std::string>& arguments, const FailingCall& call);

/// A command, and the file that it writes.
struct WritingCommand {
  std::vector<std::string> arguments;
  std::string output;
};

/// What the output holds: the bytes of a trace or a per-step file, the rows of a result file
/// without the columns that name the run. Empty if there is no such file, or no rows yet.
std::string contents(const std::filesystem::path& folder, const std::string& output);

/// The lines of `text` that begin with "kvsim: error: ".
int error_lines(const std::string& text);

/// Lets the first call of these kinds fail, then the second, until the command passes without a
/// failure, every `stride`-th of them, in `folder`, which holds the inputs. Each time, the command
/// must end with status 0 and all of its output, or with 1 or 3 and one line, with no file but its
/// output, and none of that, all of it or, of a result file, whole rows; and the same command must
/// then finish the work. `check_end` may allow more ends: it returns whether it took this one.
void fail_every_call(const std::filesystem::path& folder, const WritingCommand& command,
                     FailingCall call, int stride,
                     const std::function<bool(const cli_test::Ended&)>& check_end = {});

/// `stride`, or 1 by night.
int stride_of(int stride);

}  // namespace kvsim::faults
