#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "traces/hdf5/open_hdf5.h"
#include "traces/unit.h"

namespace kvsim {

/// A file that has numbers per token for each unit: /sequences/<s>/layers/<l>/kv_heads/<h>/NAME.
struct UnitNumbers {
  FileKind kind;             ///< of file, for messages
  std::string name;          ///< of the dataset
  std::string how_to_write;  ///< where one is missing or does not fit
};

/// Opens the file, after a child process has read all of these numbers: T is std::int32_t or float.
/// Those of several budgets have a tree for each below /budgets, and are read, too. Throws
/// DataError.
template <class T>
std::unique_ptr<GroupReader> open_unit_numbers(const std::filesystem::path& file,
                                               const UnitNumbers& numbers);

/// The `count` numbers of a unit, unchecked. `root` is the group that has `sequences`; the caller
/// holds the Hdf5Lock. Throws DataError for a unit that is missing, and for another type or shape.
template <class T>
std::vector<T> read_unit_numbers(const GroupReader& root, const UnitNumbers& numbers,
                                 const UnitName& unit, int count);

/// The group of a sequence. Throws DataError if there is none; the caller holds the Hdf5Lock.
GroupReader sequence_of(const GroupReader& root, const UnitNumbers& numbers,
                        const std::string& sequence);

/// Where the numbers of a unit are, for messages about them.
Place place_of(const GroupReader& root, const UnitNumbers& numbers, const UnitName& unit);

}  // namespace kvsim
