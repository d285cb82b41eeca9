#include "traces/output/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>

#include "traces/output/descriptor.h"
#include "traces/output/partial_name.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 100;

std::string random_letters() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::string letters;
  for (int i = 0; i < 6; ++i) letters += kLetters[device() % kLetters.size()];
  return letters;
}

/// Not every file system can sync a file or a folder.
void fsync_if_supported(const Descriptor& opened) {
  if (!opened.is_open()) throw std::runtime_error(std::strerror(errno));
  if (fsync(opened.number()) == 0) return;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return;
  throw std::runtime_error(std::strerror(errno));
}

/// Of a file, in bytes.
std::uintmax_t largest_size() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

UnwritableFile::UnwritableFile(const fs::path& file, const std::string& reason)
    : std::runtime_error(fmt::format("{}: cannot be written: {}", file.string(), reason)),
      reason_(reason) {}

PartialFile::PartialFile(fs::path target) : target_(std::move(target)) {
  struct stat there {};
  const bool is_there = stat(target_.c_str(), &there) == 0;
  if (is_there && !S_ISREG(there.st_mode)) fail("there is something else of that name");
  remove_left_behind(target_);
  const std::string prefix = own_partial_prefix(target_);
  for (int i = 0; i < kAttempts; ++i) {
    const fs::path path = prefix + random_letters();
    const Descriptor made(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (!made.is_open() && errno == EEXIST) continue;
    if (!made.is_open()) fail(std::strerror(errno));
    if (is_there) fchmod(made.number(), there.st_mode & 0777U);  // not every file system can
    path_ = path;
    return;
  }
  fail("no name for a temporary file is free");
}

PartialFile::~PartialFile() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove(path_, ignored);
}

PartialFile::PartialFile(PartialFile&& other) noexcept { *this = std::move(other); }

PartialFile& PartialFile::operator=(PartialFile&& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(path_, other.path_);
  return *this;
}

void PartialFile::reserve(std::uintmax_t bytes) const {
  std::error_code unknown;
  const fs::space_info space = fs::space(path_, unknown);
  if (!unknown && space.available < bytes) {
    fail(fmt::format("{} KiB are free where up to {} KiB are needed", space.available >> 10,
                     bytes >> 10));
  }
  const Descriptor opened(path_, O_WRONLY);
  struct stat now {};
  if (!opened.is_open() || fstat(opened.number(), &now) != 0) fail(std::strerror(errno));
  const auto size = static_cast<std::uintmax_t>(now.st_size);
  const std::uintmax_t limit = largest_size();
  if (limit < size || limit - size < bytes) {
    fail(fmt::format("{} where up to {} KiB are needed", file_size_limit(), (size + bytes) >> 10));
  }
  const auto length = static_cast<off_t>(bytes);
  if (fallocate(opened.number(), FALLOC_FL_KEEP_SIZE, now.st_size, length) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO) {
    fail(std::strerror(errno));
  }
}

void PartialFile::bring_to_disk() const {
  try {
    const Descriptor written(path_, O_WRONLY);
    struct stat now {};
    if (written.is_open() && fstat(written.number(), &now) == 0) {
      // Gives back what was reserved and not used.
      static_cast<void>(ftruncate(written.number(), now.st_size) == 0);
    }
    fsync_if_supported(written);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void PartialFile::commit() {
  bring_to_disk();
  try {
    if (std::rename(path_.c_str(), target_.c_str()) != 0) {
      throw std::runtime_error(std::strerror(errno));
    }
    keep();
    bring_folder_to_disk(target_);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void PartialFile::fail(const std::string& reason) const { throw UnwritableFile(target_, reason); }

std::string file_size_limit() {
  const std::uintmax_t limit = largest_size();
  return limit == RLIM_INFINITY ? ""
                                : fmt::format("files may have {} KiB (ulimit -f)", limit >> 10);
}

void bring_folder_to_disk(const fs::path& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  const Descriptor opened(folder, O_RDONLY | O_DIRECTORY);
  // A folder to which one may write without reading it cannot be opened.
  if (!opened.is_open() && errno == EACCES) return;
  fsync_if_supported(opened);
}

}  // namespace kvsim
