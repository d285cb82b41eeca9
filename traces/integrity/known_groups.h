#pragma once

#include <map>
#include <string>
#include <vector>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

/// A group of a trace with its attributes, but those that speak of the file's version.
struct KnownGroup {
  std::string path;  ///< absolute
  std::map<std::string, int> integers = {};
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> texts = {};
};

/// All groups of a trace that the format knows, each after the one that holds it. Throws
/// DataError. The caller holds the Hdf5Lock.
std::vector<KnownGroup> known_groups(const GroupReader& root);

/// The groups and datasets of the file, by absolute path, and the attributes of its groups, as
/// "PATH: attribute NAME", that the format does not know. Sorted. The caller holds the Hdf5Lock.
std::vector<std::string> unknown_members(const GroupReader& root);

}  // namespace kvsim
