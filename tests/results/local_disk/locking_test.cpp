#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "sim/results/local_disk/database_error.h"
#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::locking_test {

using traces_test::TemporaryFolder;
using Access = ResultStore::Access;

/// While it lives, files that SQLite opens cannot be locked, as on some network file systems.
class NoLocks {
 public:
  explicit NoLocks(int code) : original_(sqlite3_vfs_find(nullptr)), without_(*original_) {
    code_ = code;
    base_ = original_;
    without_.zName = "without-locks";
    without_.xOpen = open;
    sqlite3_vfs_register(&without_, 1);
  }
  ~NoLocks() {
    sqlite3_vfs_register(original_, 1);
    sqlite3_vfs_unregister(&without_);
  }
  NoLocks(const NoLocks&) = delete;
  NoLocks& operator=(const NoLocks&) = delete;

 private:
  static int open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* given) {
    const int status = base_->xOpen(base_, name, file, flags, given);
    if (status != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0) return status;
    const bool is_immutable = sqlite3_uri_boolean(name, "immutable", 0) != 0;
    if (is_immutable) return status;
    methods_ = *file->pMethods;
    methods_.xLock = [](sqlite3_file*, int) { return code_; };
    file->pMethods = &methods_;
    return status;
  }

  static inline int code_;
  static inline sqlite3_vfs* base_;
  static inline sqlite3_io_methods methods_;
  sqlite3_vfs* original_;
  sqlite3_vfs without_;
};

Result row(const std::string& policy) {
  Result result;
  result.policy = policy;
  return result;
}

TEST_CASE("a file that cannot be locked is not written, and a line says what to do", "[locking]") {
  const TemporaryFolder folder;
  const NoLocks no_locks(GENERATE(SQLITE_IOERR_LOCK, SQLITE_PROTOCOL));
  CHECK_THROWS_WITH(ResultStore(folder / "r.sqlite", Access::write),
                    Catch::StartsWith((folder / "r.sqlite").string() + ": ") &&
                        Catch::Contains("does not lock files here") &&
                        Catch::Contains("--scratch DIR"));
}

TEST_CASE("a file that cannot be locked is read as it stands", "[locking]") {
  const TemporaryFolder folder;
  const auto file = folder / "r %41?#.sqlite";
  ResultStore(file, Access::write).add({row("h2o")});
  const NoLocks no_locks(SQLITE_IOERR_LOCK);
  CHECK(ResultStore(file, Access::read).policies() == std::vector<std::string>{"h2o"});
  std::filesystem::copy_file(file, file.string() + "-journal");
  CHECK_THROWS_WITH(ResultStore(file, Access::read), Catch::Contains("killed program"));
}

TEST_CASE("a file that stays locked names the file and the fix", "[locking]") {
  CHECK_THROWS_WITH(
      throw_database_error("r.sqlite", SQLite::Exception("database is locked", SQLITE_BUSY)),
      Catch::StartsWith("r.sqlite: locked for a minute") && Catch::Contains("--scratch DIR"));
}

TEST_CASE("a file and a folder that may only be read are read", "[locking]") {
  const TemporaryFolder folder;
  const auto below = folder / "read_only";
  std::filesystem::create_directory(below);
  ResultStore(below / "r.sqlite", Access::write).add({row("h2o")});
  using std::filesystem::perms;
  std::filesystem::permissions(below / "r.sqlite", perms::owner_read);
  std::filesystem::permissions(below, perms::owner_read | perms::owner_exec);
  CHECK(ResultStore(below / "r.sqlite", Access::read).policies().size() == 1);
  std::filesystem::permissions(below, perms::owner_all);
}

}  // namespace kvsim::locking_test
