#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/results/database.h"
#include "sim/results/integrity/check_results.h"
#include "sim/results/run.h"
#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::results_test {

using Access = ResultStore::Access;

/// A row of the table `replay` of the unit "text", layer 0, KV head 0.
inline Result row(const std::string& policy, double recall = 0.5, std::int64_t budget = 4) {
  Result result;
  result.trace_id = "id";
  result.sequence = "text";
  result.policy = policy;
  result.budget = budget;
  result.mode = "stream";
  result.trace = "t.h5";
  result.attention_recall = recall;
  result.policy_code = "code";
  result.run_id = "run";
  return result;
}

inline std::filesystem::path write(const std::filesystem::path& file,
                                   const std::vector<Result>& rows) {
  ResultStore(file, Access::write).add(rows);
  return file;
}

inline void edit(const std::filesystem::path& file, const std::string& sql) {
  SQLite::Database(file, SQLite::OPEN_READWRITE).exec(sql);
}

/// Makes it a file from before there were digests.
inline void forget_digests(const std::filesystem::path& file) {
  edit(file, "DROP TABLE digest; PRAGMA application_id = 0; PRAGMA user_version = 0");
}

/// edit(), as if kvsim had written the file so: it gets digests of its rows as they are.
inline void rewrite(const std::filesystem::path& file, const std::string& sql) {
  edit(file, sql);
  forget_digests(file);
  Database(file, true).change([](SQLite::Database&) {});
}

inline std::string bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline Table table(const std::filesystem::path& file, const std::string& name) {
  return ResultStore(file, Access::read).table(name);
}

/// A column of a table, in the order of its rows.
inline std::vector<Value> column(const std::filesystem::path& file, const std::string& name,
                                 const std::string& of) {
  const Table found = table(file, name);
  const auto place = std::find(found.columns.begin(), found.columns.end(), of);
  std::vector<Value> values;
  for (const std::vector<Value>& each : found.rows) {
    values.push_back(each[static_cast<std::size_t>(place - found.columns.begin())]);
  }
  return values;
}

}  // namespace kvsim::results_test
