#include "sim/sweep/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace kvsim {
namespace {

namespace fs = std::filesystem;

/// The group of this process in one hierarchy, as a line of /proc/self/cgroup has it:
/// "ID:CONTROLLERS:GROUP", without controllers for cgroup v2.
struct Membership {
  std::string controllers;
  std::string group;
};

/// A mounted hierarchy: a line of /proc/self/mountinfo, "ID PARENT DEVICE TOP FOLDER OPTIONS ... -
/// TYPE SOURCE SUPER_OPTIONS".
struct Mount {
  std::string top;     ///< the group that the folder shows; a container may see a part only
  std::string folder;  ///< where
  std::string type;    ///< "cgroup2" or "cgroup"
  std::string options;
};

bool lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

std::vector<Membership> memberships(const fs::path& root) {
  std::vector<Membership> found;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    found.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return found;
}

std::vector<Mount> mounts(const fs::path& root) {
  std::vector<Mount> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::string skipped;
    Mount mount;
    std::istringstream words(line);
    words >> skipped >> skipped >> skipped >> mount.top >> mount.folder;
    while (words >> skipped && skipped != "-") continue;
    words >> mount.type >> skipped >> mount.options;
    if (mount.type == "cgroup" || mount.type == "cgroup2") found.push_back(mount);
  }
  return found;
}

/// CPUs that one group allows.
std::optional<double> quota_of(const fs::path& group) {
  double quota = 0;
  double period = 0;
  // "max 100000" has no number, and v1 says -1 where there is no quota.
  if (!(std::ifstream(group / "cpu.max") >> quota >> period)) {
    if (!(std::ifstream(group / "cpu.cfs_quota_us") >> quota)) return std::nullopt;
    if (!(std::ifstream(group / "cpu.cfs_period_us") >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

/// The groups from the one of the process up to the top of the mount, as paths below its folder.
std::vector<fs::path> groups_up(const Mount& mount, const std::string& group) {
  fs::path below = fs::path(group).lexically_relative(mount.top);
  // A group outside of what is mounted: of what is seen, the top is the nearest above it.
  if (below.empty() || *below.begin() == "..") below = ".";
  std::vector<fs::path> groups;
  for (; below != "." && !below.empty(); below = below.parent_path()) groups.push_back(below);
  groups.emplace_back(".");
  return groups;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  const std::vector<Membership> own = memberships(root);
  for (const Mount& mount : mounts(root)) {
    const bool is_v2 = mount.type == "cgroup2";
    if (!is_v2 && !lists(mount.options, "cpu")) continue;
    for (const Membership& membership : own) {
      const bool is_here =
          is_v2 ? membership.controllers.empty() : lists(membership.controllers, "cpu");
      if (!is_here) continue;
      const fs::path folder = root / fs::path(mount.folder).relative_path();
      for (const fs::path& group : groups_up(mount, membership.group)) {
        const std::optional<double> quota = quota_of(folder / group);
        if (quota) least = std::min(least.value_or(*quota), *quota);
      }
    }
  }
  return least;
}

}  // namespace kvsim
