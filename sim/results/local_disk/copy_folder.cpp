#include "sim/results/local_disk/copy_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "traces/sha256.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

const char* const kBasedOn = "based_on";

std::string prefix_of(const fs::path& target) {
  constexpr std::size_t kDigits = 16;
  return "kvsim-" + sha256(target.string()).substr(0, kDigits) + "-";
}

/// The folder's lock, held; not open if another process has it or there is none.
Descriptor locked(const fs::path& folder, int flags) {
  Descriptor lock(folder / "lock", O_RDWR | flags, 0600);
  if (lock.is_open() && flock(lock.number(), LOCK_EX | LOCK_NB) != 0) return {};
  return lock;
}

/// Other users may write to a folder for temporary files.
bool is_own(const fs::path& folder) {
  struct stat found {};
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid();
}

}  // namespace

CopyFolder::CopyFolder(fs::path folder, Descriptor lock, const fs::path& target)
    : folder_(std::move(folder)), file_(folder_ / target.filename()), lock_(std::move(lock)) {}

CopyFolder::CopyFolder(const fs::path& scratch, const fs::path& target) {
  std::string folder = (scratch / (prefix_of(target) + "XXXXXX")).string();
  if (mkdtemp(folder.data()) == nullptr) {
    throw std::runtime_error(fmt::format("{}: {}; --scratch DIR names a folder on a local disk",
                                         scratch.string(), std::strerror(errno)));
  }
  folder_ = folder;
  file_ = folder_ / target.filename();
  lock_ = locked(folder_, O_CREAT);
  if (lock_.is_open()) return;
  const std::string reason = std::strerror(errno);
  remove();
  throw std::runtime_error(
      fmt::format("{}: cannot lock files ({}); --scratch DIR names a folder on a local disk",
                  scratch.string(), reason));
}

std::vector<std::unique_ptr<CopyFolder>> CopyFolder::left_behind(const fs::path& scratch,
                                                                 const fs::path& target) {
  std::vector<std::unique_ptr<CopyFolder>> found;
  const std::string prefix = prefix_of(target);
  std::error_code ended;
  for (fs::directory_iterator entry(scratch, ended); !ended && entry != fs::directory_iterator();
       entry.increment(ended)) {
    const fs::path& folder = entry->path();
    if (!folder.filename().string().starts_with(prefix) || !is_own(folder)) continue;
    Descriptor lock = locked(folder, O_NOFOLLOW);
    if (!lock.is_open()) continue;
    std::unique_ptr<CopyFolder> left(new CopyFolder(folder, std::move(lock), target));
    // Without this file its process was killed before it began, or has just removed the copy.
    if (fs::exists(folder / kBasedOn) && fs::exists(left->file())) found.push_back(std::move(left));
  }
  return found;
}

bool CopyFolder::is_based_on(const std::string& fingerprint) const {
  std::ifstream file(folder_ / kBasedOn);
  for (std::string line; std::getline(file, line);) {
    if (line == fingerprint) return true;
  }
  return false;
}

void CopyFolder::set_based_on(const std::vector<std::string>& fingerprints) const {
  const fs::path fresh = folder_ / "based_on.new";
  {
    std::ofstream file(fresh);
    for (const std::string& fingerprint : fingerprints) file << fingerprint << '\n';
    if (!file.flush()) throw std::runtime_error(fresh.string() + ": cannot be written");
  }
  fs::rename(fresh, folder_ / kBasedOn);
}

void CopyFolder::remove() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace kvsim
