#pragma once

#include <atomic>

namespace kvsim::cli {

/// From now on the first Ctrl-C (SIGINT) or SIGTERM sets the returned flag; a second one ends the
/// program.
const std::atomic<bool>& catch_interrupts();

}  // namespace kvsim::cli
