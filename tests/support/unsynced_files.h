#pragma once

#include <sqlite3.h>

namespace kvsim::test_support {

/// While it lives, SQLite does not wait for the disk: a crash of the machine may lose a test's
/// files.
class UnsyncedFiles {
 public:
  UnsyncedFiles() { sqlite3_auto_extension(reinterpret_cast<void (*)()>(set)); }
  ~UnsyncedFiles() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(set)); }
  UnsyncedFiles(const UnsyncedFiles&) = delete;
  UnsyncedFiles& operator=(const UnsyncedFiles&) = delete;

 private:
  static int set(sqlite3* database, char**, const sqlite3_api_routines*) {
    return sqlite3_exec(database, "PRAGMA synchronous = OFF", nullptr, nullptr, nullptr);
  }
};

}  // namespace kvsim::test_support
