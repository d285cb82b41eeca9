#include "traces/guard/guard_limits.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace kvsim {
namespace {

constexpr std::uintmax_t kGiB = 1 << 30;

/// Never beyond the limit that the user has set.
void limit(int resource, rlim_t soft, rlim_t hard) {
  rlimit present{};
  if (getrlimit(resource, &present) != 0) return;
  const rlimit wanted{.rlim_cur = std::min({soft, present.rlim_cur, present.rlim_max}),
                      .rlim_max = std::min(hard, present.rlim_max)};
  setrlimit(resource, &wanted);
}

/// The bytes of data that count towards RLIMIT_DATA: heaps, and what sanitizers reserve. Those of
/// /proc, where 0 says that it cannot be read.
std::uintmax_t data_of_this_process() {
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 8192> text{};
  std::size_t length = 0;
  while (length < text.size() - 1) {
    const ssize_t some = read(file, text.data() + length, text.size() - 1 - length);
    if (some <= 0) break;
    length += static_cast<std::size_t>(some);
  }
  close(file);
  constexpr const char* kKey = "VmData:";
  const char* const found = std::strstr(text.data(), kKey);
  return found == nullptr ? 0 : std::strtoull(found + std::strlen(kKey), nullptr, 10) << 10;
}

}  // namespace

GuardLimits GuardLimits::of(const std::filesystem::path& file) {
  constexpr std::uintmax_t kSeconds = 20;
  constexpr std::uintmax_t kSecondsPerGiB = 30;
  constexpr std::chrono::minutes kTime(10);
  std::error_code unknown;
  const std::uintmax_t found = std::filesystem::file_size(file, unknown);
  const std::uintmax_t bytes = unknown ? 0 : found;
  return {.cpu_time = std::chrono::seconds(kSeconds + kSecondsPerGiB * (bytes / kGiB)),
          .memory = kGiB + 2 * bytes,
          .time = kTime + std::chrono::seconds(kSecondsPerGiB * (bytes / kGiB))};
}

void limit_this_process(const GuardLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto seconds = static_cast<rlim_t>(limits.cpu_time.count());
  limit(RLIMIT_CPU, seconds, seconds + 1);
  limit(RLIMIT_CORE, 0, 0);
  if (const std::uintmax_t present = data_of_this_process(); present > 0) {
    limit(RLIMIT_DATA, present + limits.memory, present + limits.memory);
  }
}

}  // namespace kvsim
