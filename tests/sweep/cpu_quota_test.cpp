#include "sim/sweep/cpu_quota.h"

#include <omp.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "sim/sweep/in_parallel.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cpu_quota_test {

using traces_test::TemporaryFolder;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// A machine whose one hierarchy of control groups is of version 2.
void mount_v2(const TemporaryFolder& root, const std::string& group, const std::string& top = "/") {
  write(root / "proc/self/cgroup", "0::" + group + "\n");
  write(root / "proc/self/mountinfo",
        "22 1 0:20 / /proc rw - proc proc rw\n"
        "31 22 0:28 " +
            top + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
}

/// The same of version 1, where the controllers of CPUs are mounted together.
void mount_v1(const TemporaryFolder& root, const std::string& group, const std::string& top) {
  write(root / "proc/self/cgroup", "4:memory:/elsewhere\n3:cpu,cpuacct:" + group + "\n0::/\n");
  write(root / "proc/self/mountinfo",
        "32 31 0:29 " + top +
            " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
            "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
}

TEST_CASE("sweep: without control groups there is no quota", "[cpu_quota]") {
  const TemporaryFolder root;
  CHECK_FALSE(cpu_quota(root.path()));
}

TEST_CASE("sweep: the quota is the least of the own group and those above it", "[cpu_quota]") {
  const TemporaryFolder root;
  mount_v2(root, "/user.slice/job/step");
  const std::string groups = "sys/fs/cgroup/user.slice/";
  write(root / (groups + "job/step/cpu.max"), "max 100000\n");
  CHECK_FALSE(cpu_quota(root.path()));
  write(root / (groups + "job/cpu.max"), "250000 100000\n");
  CHECK(cpu_quota(root.path()) == 2.5);
  write(root / (groups + "cpu.max"), "800000 100000\n");
  CHECK(cpu_quota(root.path()) == 2.5);
  write(root / (groups + "job/step/cpu.max"), "50000 100000\n");
  CHECK(cpu_quota(root.path()) == 0.5);
  write(root / (groups + "other/cpu.max"), "10000 100000\n");
  CHECK(cpu_quota(root.path()) == 0.5);
}

TEST_CASE("sweep: a container that sees its own group as the top has its quota", "[cpu_quota]") {
  const TemporaryFolder root;
  const std::string group = GENERATE("/", "/docker/1a", "/../elsewhere");
  mount_v2(root, group, group == "/docker/1a" ? group : "/");
  write(root / "sys/fs/cgroup/cpu.max", "150000 100000\n");
  CHECK(cpu_quota(root.path()) == 1.5);
}

TEST_CASE("sweep: quotas of control groups of version 1 count as well", "[cpu_quota]") {
  const TemporaryFolder root;
  mount_v1(root, "/docker/1a", "/docker/1a");
  const std::string folder = "sys/fs/cgroup/cpu,cpuacct/";
  write(root / (folder + "cpu.cfs_period_us"), "50000\n");
  write(root / (folder + "cpu.cfs_quota_us"), "-1\n");
  CHECK_FALSE(cpu_quota(root.path()));
  write(root / (folder + "cpu.cfs_quota_us"), "150000\n");
  CHECK(cpu_quota(root.path()) == 3);
}

TEST_CASE("sweep: the default number of threads is at least 1 and at most OpenMP's",
          "[cpu_quota]") {
  CHECK(default_threads() >= 1);
  CHECK(default_threads() <= omp_get_max_threads());
}

}  // namespace kvsim::cpu_quota_test
