#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/results/local_disk/scratch.h"

namespace kvsim {

/// A table of a merged file.
struct MergedTable {
  std::string name;
  std::size_t rows = 0;   ///< that it has now
  std::size_t added = 0;  ///< of these, those that it did not have before
};

/// What a merge has made.
struct Merged {
  std::size_t parts = 0;             ///< files that were read
  std::vector<MergedTable> tables;   ///< in the order of their names
  std::vector<std::string> missing;  ///< missing_shards() of the merged file
};

/// Called often with the number of parts that are done. It may throw to end the merge; the output
/// is then as it was.
using MergeProgress = std::function<void(std::size_t)>;

/// Joins the tables of result files in `output`, whose rows take part; without one it is made.
/// Views are those of this version. A row with the key of another is kept once, if RowRules finds
/// no difference. The output is written in one transaction: on failure it is as it was. A part that
/// is the output, or is named twice, counts once. `scratch` is for the output, as for ResultStore.
///
/// Throws UsageError without parts or without a name for the output. Throws DataError, which names
/// both files, for rows or tables that do not fit together (RowsDiffer, JoinedTables), for a policy
/// with two codes (PolicyCodes), and for rows above a bound (SharedUnits); and if a part is missing
/// or is no result file. Throws std::runtime_error if the output cannot be written.
Merged merge_results(const std::vector<std::filesystem::path>& parts,
                     const std::filesystem::path& output, const MergeProgress& progress = {},
                     const Scratch& scratch = {});

}  // namespace kvsim
