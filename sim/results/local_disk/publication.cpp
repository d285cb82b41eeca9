#include "sim/results/local_disk/publication.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "sim/results/local_disk/open_to_read.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail() { throw std::runtime_error(std::strerror(errno)); }

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  Descriptor(const fs::path& file, int flags)
      : number_(open(file.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

void copy_database(const fs::path& local, const fs::path& partial) {
  {
    const Descriptor made(partial, O_WRONLY | O_CREAT | O_TRUNC);
    if (!made.is_open()) fail();
  }
  SQLite::Database from(local, SQLite::OPEN_READONLY, kBusyMilliseconds);
  // Nobody else knows the new file: it needs neither locks, which may fail there, nor a journal.
  SQLite::Database to(partial, SQLite::OPEN_READWRITE, 0, "unix-none");
  to.exec("PRAGMA journal_mode = OFF");
  SQLite::Backup backup(to, from);
  if (const int state = backup.executeStep(); state != SQLITE_DONE) {
    throw std::runtime_error(sqlite3_errstr(state));
  }
}

void bring_to_disk(const fs::path& file) {
  const Descriptor written(file, O_RDONLY);
  if (!written.is_open() || fsync(written.number()) != 0) fail();
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
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}{}{}-{}{}", file.string(), before, host.data(), getpid(), after);
}

fs::path write_partial(const fs::path& local, const fs::path& place) {
  fs::path partial = name_of_this_process(place, ".partial-", "");
  try {
    copy_database(local, partial);
    if (struct stat earlier{}; stat(place.c_str(), &earlier) == 0) {
      chmod(partial.c_str(), earlier.st_mode & 0777U);
    }
    bring_to_disk(partial);
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    std::error_code ignored;
    fs::remove(partial, ignored);
    throw std::runtime_error(reason);
  }
  return partial;
}

bool put_in_place(const fs::path& partial, const fs::path& place, const std::string& expected) {
  if (fingerprint(place) != expected) return false;
  // A link, unlike a renaming, never takes the place of what came there a moment ago.
  const bool is_new = expected == "none";
  if (is_new && link(partial.c_str(), place.c_str()) == 0) {
    unlink(partial.c_str());
  } else if (is_new && errno == EEXIST) {
    return false;
  } else if (rename(partial.c_str(), place.c_str()) != 0) {
    fail();
  }
  const Descriptor folder(fs::absolute(place).parent_path(), O_RDONLY | O_DIRECTORY);
  if (folder.is_open()) fsync(folder.number());  // not every file system can
  return true;
}

}  // namespace kvsim
