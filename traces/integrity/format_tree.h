#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "traces/datasets.h"
#include "traces/hdf5/group_reader.h"

namespace kvsim {

/// Says what a dataset of the group is for the tree of the file.
using DescribeDataset =
    std::function<nlohmann::json(const GroupReader& group, const DatasetInfo& dataset)>;

/// The tree of a trace's groups, in which an object stands for each group: its attributes that
/// matter to a replay, its groups, and what `describe` says of each dataset that datasets()
/// declares. What else a file holds has no part in it. Throws DataError. The caller holds the
/// Hdf5Lock.
nlohmann::json format_tree(const GroupReader& root, const DescribeDataset& describe);

/// A dataset of the file.
struct DatasetPlace {
  std::string group;  ///< absolute path
  const DatasetInfo* info;

  std::string name() const { return std::string(info->name); }
};

/// All datasets of the file that datasets() declares. Throws DataError. The caller holds the
/// Hdf5Lock.
std::vector<DatasetPlace> list_datasets(const GroupReader& root);

}  // namespace kvsim
