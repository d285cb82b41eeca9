#pragma once

#include <filesystem>
#include <string>

#include "sim/base/errors.h"
#include "traces/trace.h"

namespace kvsim::traces_test {

/// Opens the trace and reads all of it; returns the error, or nothing.
inline std::string error_of_reading(const std::filesystem::path& file) {
  try {
    const Trace trace(file);
    for (const SequenceInfo& sequence : trace.sequences()) {
      for (const LayerInfo& layer : sequence.layers) {
        if (layer.mlp_width > 0) {
          trace.read_mlp_activation(sequence.name, layer.index, [](const Matrix&) {});
        }
        for (const int head : layer.kv_heads) {
          trace.read_unit({sequence.name, layer.index, head});
          if (layer.has_output) trace.read_output({sequence.name, layer.index, head});
        }
      }
    }
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace kvsim::traces_test
