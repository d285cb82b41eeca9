#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <memory>

#include "sim/core/result.h"

namespace kvsim {

/// The SQLite file behind a ResultStore.
class Database {
 public:
  /// Throws UsageError if `file` is empty, DataError if it is to be read and does not exist.
  Database(std::filesystem::path file, bool writing);

  /// Runs `action` on the connection, turning errors of SQLite into ours: DataError if the file is
  /// not a result file, std::runtime_error if it cannot be read or written.
  template <class Action>
  auto run(Action action) const {
    try {
      return action(*connection_);
    } catch (const SQLite::Exception& error) {
      fail(error);
    }
  }

  const std::filesystem::path& file() const { return file_; }

 private:
  [[noreturn]] void fail(const SQLite::Exception& error) const;

  std::filesystem::path file_;
  std::unique_ptr<SQLite::Database> connection_;
};

Value read_value(const SQLite::Column& column);

/// `index` counts from 1.
void bind(SQLite::Statement& statement, int index, const Value& value);

}  // namespace kvsim
