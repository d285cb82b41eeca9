#include "sim/results/local_disk/publication.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "sim/results/local_disk/host_name.h"
#include "sim/results/local_disk/open_to_read.h"
#include "traces/output/descriptor.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail() { throw std::runtime_error(std::strerror(errno)); }

void copy_database(const fs::path& local, const fs::path& partial) {
  SQLite::Database from(local, SQLite::OPEN_READONLY, kBusyMilliseconds);
  // Nobody else knows the new file: it needs neither locks, which may fail there, nor a journal.
  SQLite::Database to(partial, SQLite::OPEN_READWRITE, 0, "unix-none");
  to.exec("PRAGMA journal_mode = OFF");
  SQLite::Backup backup(to, from);
  if (const int state = backup.executeStep(); state != SQLITE_DONE) {
    throw std::runtime_error(sqlite3_errstr(state));
  }
}

}  // namespace

std::string fingerprint(const fs::path& file) {
  // To open the file asks a server for its present state, where stat() alone may have an old one.
  const Descriptor opened(file, O_RDONLY);
  struct stat found {};
  const bool is_there =
      opened.is_open() ? fstat(opened.number(), &found) == 0 : stat(file.c_str(), &found) == 0;
  if (!is_there) return "none";
  return fmt::format("{} {} {}.{:09}", found.st_ino, found.st_size, found.st_mtim.tv_sec,
                     found.st_mtim.tv_nsec);
}

fs::path name_of_this_process(const fs::path& file, const std::string& before,
                              const std::string& after) {
  return fmt::format("{}{}{}-{}{}", file.string(), before, host_name(), getpid(), after);
}

PartialFile write_partial(const fs::path& local, const fs::path& place) {
  PartialFile partial(place);
  copy_database(local, partial.path());
  partial.bring_to_disk();
  return partial;
}

bool put_in_place(PartialFile& partial, const fs::path& place, const std::string& expected) {
  if (fingerprint(place) != expected) return false;
  // A link, unlike a renaming, never takes the place of what came there a moment ago.
  const bool is_new = expected == "none";
  if (is_new && link(partial.path().c_str(), place.c_str()) == 0) {
    unlink(partial.path().c_str());
  } else if (is_new && errno == EEXIST) {
    return false;
  } else if (rename(partial.path().c_str(), place.c_str()) != 0) {
    fail();
  }
  partial.keep();
  bring_folder_to_disk(place);
  return true;
}

}  // namespace kvsim
