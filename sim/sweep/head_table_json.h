#pragma once

#include <string>
#include <string_view>

#include "sim/sweep/head_table.h"

namespace kvsim {

/// Reads the shape and values of a HeadTable from the text of a .json file. Throws DataError, which
/// names `file`.
HeadTable table_of_json(const std::string& file, std::string_view bytes);

}  // namespace kvsim
