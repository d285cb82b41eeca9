#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

// A list of strings is `name`, uint8 [bytes], all of them without anything between, and
// `name`_offsets, int64 [count + 1], where each begins and the last one ends. In version 1 it was
// one dataset of strings. The caller holds the Hdf5Lock.

/// Throws DataError unless the group has the list, of the right types, with `count` strings.
void check_text_list(const GroupReader& group, const std::string& name, std::size_t count);

/// Reads such a list. Throws DataError unless offsets ascend from 0 to the number of bytes and the
/// strings are UTF-8.
std::vector<std::string> read_text_list(const GroupReader& group, const std::string& name,
                                        std::size_t count);

/// Reads a dataset of strings of fixed or variable length, as in version 1.
std::vector<std::string> read_texts(const H5::DataSet& dataset);

}  // namespace kvsim
