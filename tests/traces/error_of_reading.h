#pragma once

#include <filesystem>
#include <string>

#include "sim/base/errors.h"
#include "traces/integrity/check_trace.h"

namespace kvsim::traces_test {

/// Opens the trace and reads all of it; returns the error, or nothing.
inline std::string error_of_reading(const std::filesystem::path& file) {
  try {
    read_every_unit(Trace(file), [] {});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace kvsim::traces_test
