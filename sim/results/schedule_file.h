#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

class GroupReader;

/// Eviction schedules, one per unit, in the format of PerStepFile: of each unit's group only
/// `evicted_after` is read. Throws DataError for any other file.
class ScheduleFile {
 public:
  explicit ScheduleFile(const std::filesystem::path& file);
  ~ScheduleFile();

  /// Per token, the step after which it leaves; num_tokens: never. Throws DataError if the unit has
  /// no valid schedule, or if it keeps more than `budget` tokens after some step from
  /// `first_eviction` on.
  std::vector<std::int32_t> read(const UnitName& unit, int num_tokens, int first_eviction,
                                 int budget) const;

 private:
  std::unique_ptr<GroupReader> root_;
};

}  // namespace kvsim
