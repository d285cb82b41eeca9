#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

/// Says what a dataset is for the tree of the file. `head_axes`: how many axes it has if it holds
/// heads, [.., rows, dim]; 0: it is a list.
using DescribeDataset =
    std::function<nlohmann::json(const GroupReader& group, const std::string& name, int head_axes)>;

/// The tree of a trace's groups, in which an object stands for each group: its attributes that
/// matter to a replay, its groups, and what `describe` says of each dataset that the format knows.
/// What else a file holds has no part in it. Throws DataError. The caller holds the Hdf5Lock.
nlohmann::json format_tree(const GroupReader& root, const DescribeDataset& describe);

/// Where a dataset is; `head_axes` as above.
struct DatasetName {
  std::string group;  ///< absolute path
  std::string name;
  int head_axes = 0;
};

/// All datasets of the file that the format knows. Throws DataError. The caller holds the Hdf5Lock.
std::vector<DatasetName> list_datasets(const GroupReader& root);

}  // namespace kvsim
