#pragma once

#include <filesystem>
#include <optional>

namespace kvsim {

/// How many CPUs' time the control groups of this process allow it, as containers and batch systems
/// set it: the least quota of its own group and of those above it, of cgroup v2 (cpu.max) or v1
/// (cpu.cfs_quota_us); 1.5 is one and a half CPUs. Nothing where there is no quota. `root` stands
/// for "/" in tests.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace kvsim
