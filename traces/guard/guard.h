#pragma once

#include <functional>
#include <string>

#include "traces/guard/guard_limits.h"

namespace kvsim {

/// Runs `read` in a child process and waits for its end, so that whatever a damaged file makes of
/// it is a DataError here: what it throws, or that it crashed or met a limit, with the advice
/// `fix`. Throws Interrupted if a signal of the user's ended the child, what the InterruptCheck of
/// this thread throws, and std::runtime_error if there can be no child. `file` is for messages.
///
/// The child is a copy of a process that may have many threads, of which it has only this one:
/// `read` may use HDF5, memory and files, but no lock that another thread may hold, hence no
/// OpenMP, no OpenSSL and no Python. The caller does not hold the Hdf5Lock.
void try_in_child(const std::string& file, const std::string& fix, const GuardLimits& limits,
                  const std::function<void()>& read);

}  // namespace kvsim
