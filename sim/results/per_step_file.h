#pragma once

#include <filesystem>
#include <memory>

#include "sim/results/result.h"
#include "sim/results/trajectory.h"

namespace kvsim {

class Hdf5Output;

/// The step-by-step record of replays (HDF5). Group `/sequences/<s>/layers/<l>/kv_heads/<g>` has
/// the attributes policy, budget and mode and the datasets `evicted_after` int32 [n],
/// `attention_recall` and `output_error` float32 [G, steps], NaN where no error was taken; without
/// a reference only `evicted_after`. An oracle with slot prices adds `slot_price` float64
/// [n], see Plan.
///
/// The file appears under its name when close() returns; an unfinished one is removed. Throws
/// std::runtime_error if it cannot be written.
class PerStepFile {
 public:
  explicit PerStepFile(const std::filesystem::path& file);
  ~PerStepFile();

  /// Adds the group of one unit. Of `result` only the key is used.
  void add(const Result& result, const Trajectory& trajectory);

  void close();

 private:
  std::unique_ptr<Hdf5Output> output_;
};

}  // namespace kvsim
