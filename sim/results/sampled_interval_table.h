#pragma once

#include <string>
#include <vector>

#include "sim/results/database.h"
#include "sim/results/run.h"
#include "sim/results/sampled_interval.h"
#include "sim/results/table_schema.h"

namespace kvsim {

TableSchema sampled_interval_schema();

/// Inserts rows, in place of those with the same key. Creates the table if it is missing; `file` is
/// for messages.
void insert_sampled_intervals(SQLite::Database& connection,
                              const std::vector<SampledIntervalRow>& rows, const Run* run,
                              const std::string& file);

/// The rows of one trace in this mode and with this seed, ordered by key, with the key of their
/// `row`. Throws as ValueCheck (integrity/value_ranges.h); `file` is for messages.
std::vector<SampledIntervalRow> sampled_intervals_of(SQLite::Database& connection,
                                                     const std::string& trace_id,
                                                     const std::string& mode, std::int64_t seed,
                                                     const std::string& file);

}  // namespace kvsim
