#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/sweep/head_table.h"

namespace kvsim {

/// Each reads the shape and values of a HeadTable from the bytes of a file, and throws DataError,
/// which names `file`, where they are something else.
HeadTable table_of_npy(const std::string& file, std::string_view bytes);
HeadTable table_of_text(const std::string& file, std::string_view bytes);

/// The table of nested lists, with the length of each level in `shape`: two or three. Throws
/// DataError for any other number, and for a level without entries.
HeadTable table_of_shape(const std::string& file, const std::vector<std::size_t>& shape,
                         std::vector<double> values);

}  // namespace kvsim
