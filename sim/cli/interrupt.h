#pragma once

#include <atomic>

namespace kvsim::cli {

/// From now on Ctrl-C (SIGINT) and SIGTERM set the returned flag instead of ending the program; a
/// second one ends it.
const std::atomic<bool>& catch_interrupts();

}  // namespace kvsim::cli
