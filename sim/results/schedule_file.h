#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

class GroupReader;

/// How many tokens a schedule may keep.
struct ScheduleLimits {
  int first_eviction = 0;  ///< the first step that may evict; what is kept before is not limited
  int budget = 1;          ///< after that step, and after any other that evicts
  int most_held = 1;       ///< at a later step that keeps more than the budget
  int page = 1;            ///< tokens that leave together
};

/// Eviction schedules in the format of PerStepFile, one per unit: of each unit's group only
/// `evicted_after` is read. A file for several budgets has one such tree for each of them below
/// `/budgets/<B>`, B in tokens: `/budgets/51/sequences/<s>/...`. Throws DataError for any other
/// file.
class ScheduleFile {
 public:
  explicit ScheduleFile(const std::filesystem::path& file);
  ~ScheduleFile();

  /// Throws DataError, naming the budgets that are there, if the file is for several budgets and
  /// `budget` is none of them.
  void require_budget(int budget) const;

  /// The schedule of a unit for a replay at `budget`: per token, the step after which it leaves;
  /// num_tokens: never. Throws DataError as require_budget() does, if the unit has no valid
  /// schedule, or if that exceeds the limits.
  std::vector<std::int32_t> read(int budget, const UnitName& unit, int num_tokens,
                                 const ScheduleLimits& limits) const;

 private:
  GroupReader root_of(int budget) const;

  std::unique_ptr<GroupReader> root_;
};

}  // namespace kvsim
