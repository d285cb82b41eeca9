#include "traces/output/partial_name.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>

namespace kvsim {
namespace {

namespace fs = std::filesystem;

/// Empty if the system does not tell.
std::string machine() {
  std::string digits;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> digits;
  std::uint32_t boot = 0;
  const char* const end = digits.data() + std::min<std::size_t>(digits.size(), 8);
  if (std::from_chars(digits.data(), end, boot, 16).ptr != end || digits.empty()) return "";
  struct stat processes {};
  if (stat("/proc/self/ns/pid", &processes) != 0) return "";
  return fmt::format("{:08x}", boot ^ static_cast<std::uint32_t>(processes.st_ino));
}

std::string prefix_of(const fs::path& target, const std::string& machine) {
  return fmt::format("{}.partial-{}-", target.filename().string(), machine);
}

/// The process id in what follows the prefix, "PID-RANDOM"; 0 if there is none.
pid_t process_in(std::string_view rest) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), process);
  const bool is_whole = error == std::errc() && end != rest.data() + rest.size() && *end == '-';
  return is_whole && process > 0 ? process : 0;
}

bool has_ended(pid_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

std::string own_partial_prefix(const fs::path& target) {
  const std::string here = machine();
  const std::string prefix = prefix_of(target, here.empty() ? "unknown" : here);
  return (target.parent_path() / prefix).string() + std::to_string(getpid()) + "-";
}

void remove_left_behind(const fs::path& target) {
  const std::string here = machine();
  if (here.empty()) return;
  const std::string prefix = prefix_of(target, here);
  std::error_code ended;
  const fs::path folder = fs::absolute(target).parent_path();
  for (fs::directory_iterator entry(folder, ended); !ended && entry != fs::directory_iterator();
       entry.increment(ended)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const pid_t process = process_in(std::string_view(name).substr(prefix.size()));
    std::error_code ignored;
    if (process == 0 || !has_ended(process)) continue;
    const fs::file_status status = entry->symlink_status(ignored);
    if (fs::is_regular_file(status) || fs::is_directory(status)) {
      fs::remove_all(entry->path(), ignored);
    }
  }
}

}  // namespace kvsim
