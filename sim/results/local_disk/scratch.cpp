#include "sim/results/local_disk/scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "sim/base/errors.h"
#include "sim/results/local_disk/file_system.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

bool is_local_and_writable(const fs::path& folder) {
  std::error_code unknown;
  return fs::is_directory(folder, unknown) && access(folder.c_str(), W_OK) == 0 &&
         network_file_system(folder).empty();
}

}  // namespace

fs::path scratch_folder(const fs::path& file, const Scratch& scratch) {
  if (!scratch.folder.empty()) {
    std::error_code failed;
    fs::create_directories(scratch.folder, failed);
    if (failed || !fs::is_directory(scratch.folder)) {
      throw UsageError(fmt::format("--scratch: expected a folder on a local disk, found {} ({})",
                                   scratch.folder.string(),
                                   failed ? failed.message() : "no folder"));
    }
    return fs::absolute(scratch.folder);
  }
  const std::string kind = network_file_system(file);
  if (kind.empty()) return {};
  const char* named = std::getenv("TMPDIR");
  for (const fs::path folder : {named == nullptr ? "/tmp" : named, "/tmp", "/var/tmp"}) {
    if (is_local_and_writable(folder)) return fs::absolute(folder);
  }
  if (scratch.tell) {
    scratch.tell(
        fmt::format("{} is on {}, and no local folder for temporary files was found; it "
                    "is written where it lies, unless --scratch DIR names one",
                    file.string(), kind));
  }
  return {};
}

}  // namespace kvsim
