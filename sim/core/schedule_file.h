#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

class GroupReader;

/// Eviction schedules, one per unit, in the format of PerStepFile: of each unit's group only
/// `evicted_after` is read. Throws DataError for a file that is not one.
class ScheduleFile {
 public:
  explicit ScheduleFile(const std::filesystem::path& file);
  ~ScheduleFile();

  /// Per token, the step after which it leaves; num_tokens for never. `first_eviction` is the first
  /// step that evicts, and from it on at most `budget` tokens may stay. Throws DataError if there
  /// is no schedule for the unit, or it is no schedule, or keeps more.
  std::vector<std::int32_t> read(const UnitName& unit, int num_tokens, int first_eviction,
                                 int budget) const;

 private:
  std::unique_ptr<GroupReader> root_;
};

}  // namespace kvsim
