#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <vector>

namespace kvsim {

/// A line for every command of which the table `run` has some shards, but not all, and for every
/// one of which shards began and were not finished; none if nothing is missing.
std::vector<std::string> missing_shards(SQLite::Database& connection);

}  // namespace kvsim
