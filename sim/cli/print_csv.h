#pragma once

#include "sim/results/table.h"

namespace kvsim::cli {

/// write_csv() to standard output, with a note on texts that it had to mark.
void print_csv(const Table& table);

}  // namespace kvsim::cli
