#include "sim/results/local_disk/local_copy.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>

#include "sim/results/local_disk/open_to_read.h"
#include "sim/results/local_disk/publication.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kShareOfTime = 10;  // publishing takes at most one part in ten

std::mutex copies_mutex;

std::map<fs::path, std::weak_ptr<LocalCopy>>& copies() {
  static std::map<fs::path, std::weak_ptr<LocalCopy>> of_process;
  return of_process;
}

/// Throws if no file can be made next to `target`: better now than after hours of work.
void check_place(const fs::path& target) {
  if (fs::exists(target) && !fs::is_regular_file(target)) {
    throw std::runtime_error(
        fmt::format("{}: expected a result file, found something else", target.string()));
  }
  if (fs::exists(target) && access(target.c_str(), W_OK) != 0) {
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}", target.string(), std::strerror(errno)));
  }
  const PartialFile probe(target);
}

/// Without the name of the file, where the error has it apart.
std::string reason_of(const std::exception& error) {
  const auto* unwritable = dynamic_cast<const UnwritableFile*>(&error);
  return unwritable == nullptr ? error.what() : unwritable->reason();
}

}  // namespace

std::shared_ptr<LocalCopy> LocalCopy::of(const fs::path& target, const fs::path& scratch_folder,
                                         const Scratch& scratch) {
  const std::lock_guard lock(copies_mutex);
  const fs::path name = fs::weakly_canonical(fs::absolute(target));
  if (std::shared_ptr<LocalCopy> known = copies()[name].lock()) return known;
  std::shared_ptr<LocalCopy> made(new LocalCopy(name, scratch_folder, scratch));
  copies()[name] = made;
  return made;
}

void LocalCopy::release(std::shared_ptr<LocalCopy> copy) {
  const std::lock_guard lock(copies_mutex);
  if (copy.use_count() == 1) copy->keep();
  copy.reset();
}

LocalCopy::LocalCopy(fs::path target, const fs::path& scratch_folder, const Scratch& scratch)
    : target_(std::move(target)), place_(target_), scratch_(scratch) {
  check_place(target_);
  try {
    begin(scratch_folder);
  } catch (...) {
    header_ = {};
    if (folder_ && has_place_) folder_->remove();
    throw;
  }
  next_ = Clock::now() + scratch_.interval;
}

LocalCopy::~LocalCopy() {
  header_ = {};
  if (!is_kept_) folder_->remove();
}

void LocalCopy::begin(const fs::path& scratch_folder) {
  take_over(scratch_folder);
  if (!folder_) {
    folder_ = std::make_unique<CopyFolder>(scratch_folder, target_);
    copy_target();
    folder_->set_based_on({base_});
  }
  header_ = Descriptor(file(), O_RDONLY | O_CREAT, 0600);
  if (!header_.is_open()) {
    throw std::runtime_error(fmt::format("{}: {}", file().string(), std::strerror(errno)));
  }
  published_counter_ = change_counter();
}

void LocalCopy::take_over(const fs::path& scratch_folder) {
  base_ = fingerprint(target_);
  for (std::unique_ptr<CopyFolder>& left : CopyFolder::left_behind(scratch_folder, target_)) {
    if (!folder_ && left->is_based_on(base_)) {
      folder_ = std::move(left);
      has_place_ = false;  // it may have rows that the target lacks
      tell(fmt::format("{}: goes on with the rows of a command that was killed, in {}",
                       target_.string(), file().string()));
    } else {
      tell(
          fmt::format("{} has rows of a command that was killed, and {} has changed since; kvsim "
                      "merge joins them",
                      left->file().string(), target_.string()));
    }
  }
}

void LocalCopy::copy_target() {
  std::string before;
  while (before != base_) {  // once more where it changed meanwhile
    if (base_ == "none") return;
    before = base_;
    const std::unique_ptr<SQLite::Database> from = open_to_read(target_);
    SQLite::Database to(file(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Backup backup(to, *from);
    if (const int state = backup.executeStep(); state != SQLITE_DONE) {
      throw std::runtime_error(fmt::format("{}: cannot be copied to {}: {}", target_.string(),
                                           file().string(), sqlite3_errstr(state)));
    }
    base_ = fingerprint(target_);
  }
  SQLite::Database(file(), SQLite::OPEN_READWRITE).exec("PRAGMA journal_mode = DELETE");
}

std::uint32_t LocalCopy::change_counter() const {
  constexpr off_t kPlace = 24;  // of the counter in the header of a database, four bytes
  std::array<std::uint8_t, 4> bytes{};
  const ssize_t read = pread(header_.number(), bytes.data(), bytes.size(), kPlace);
  if (read != static_cast<ssize_t>(bytes.size())) return 0;
  std::uint32_t counter = 0;
  for (const std::uint8_t byte : bytes) counter = counter << 8U | byte;
  return counter;
}

void LocalCopy::committed() {
  const std::lock_guard lock(mutex_);
  if (Clock::now() < next_ || !has_changed()) return;
  const auto began = Clock::now();
  try {
    bring_to_place();
  } catch (const std::runtime_error& error) {
    if (!has_told_) tell(error.what());
    has_told_ = true;
  }
  const auto took = Clock::now() - began;
  next_ = Clock::now() + std::max<Clock::duration>(scratch_.interval, kShareOfTime * took);
}

void LocalCopy::publish() {
  const std::lock_guard lock(mutex_);
  try {
    bring_to_place();
  } catch (const std::runtime_error&) {
    has_told_ = true;
    throw;
  }
}

fs::path LocalCopy::keep() {
  const std::lock_guard lock(mutex_);
  try {
    bring_to_place();
  } catch (const std::runtime_error& error) {
    if (!has_told_) tell(error.what());
    has_told_ = true;
    return file();
  }
  return place_;
}

void LocalCopy::bring_to_place() {
  if (!has_changed()) return;
  try {
    const std::uint32_t counter = change_counter();
    PartialFile partial = write_partial(file(), target_);
    folder_->set_based_on({base_, fingerprint(partial.path())});
    bool is_there = put_in_place(partial, place_, base_);
    for (int i = 1; !is_there; ++i) {
      const std::string end = i == 1 ? ".sqlite" : fmt::format("-{}.sqlite", i);
      place_ = name_of_this_process(target_, ".", end);
      is_there = put_in_place(partial, place_, "none");
      if (!is_there) continue;
      tell(
          fmt::format("{} was changed by another program; the rows of this one are in {}, and "
                      "kvsim merge {} {} -o ALL.sqlite joins them",
                      target_.string(), place_.string(), target_.string(), place_.string()));
    }
    base_ = fingerprint(place_);
    folder_->set_based_on({base_});
    published_counter_ = counter;
    has_place_ = true;
    is_kept_ = false;
  } catch (const std::exception& error) {
    is_kept_ = true;
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}; all rows are in {}, and the same command brings "
                    "them to their place",
                    target_.string(), reason_of(error), file().string()));
  }
}

void LocalCopy::tell(const std::string& line) const {
  if (scratch_.tell) scratch_.tell(line);
}

}  // namespace kvsim
