#pragma once

namespace kvsim::cli {

/// Runs the program `kvsim` with these arguments, the name of the program first: prints, and
/// returns the exit status. A program of one's own that registers policies first has all verbs.
int run_program(int argc, char** argv);

}  // namespace kvsim::cli
