#include "sim/results/local_disk/file_system.h"

#include <sys/vfs.h>

#include <array>
#include <utility>

namespace kvsim {
namespace {

/// From linux/magic.h and the file systems' own sources. Their locks work on some machines, are
/// missing on others, and on some lie.
constexpr std::array<std::pair<std::uint32_t, const char*>, 17> kNames{{
    {0x6969, "NFS"},
    {0x0BD00BD0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x517B, "SMB"},
    {0xFF534D42, "CIFS"},
    {0xFE534D42, "SMB"},
    {0x19830326, "BeeGFS"},
    {0x00C36400, "Ceph"},
    {0x65735546, "FUSE"},
    {0x20030528, "OrangeFS"},
    {0xAAD7AAEA, "PanFS"},
    {0x5346414F, "AFS"},
    {0x6B414653, "AFS"},
    {0x73757245, "Coda"},
    {0x01161970, "GFS2"},
    {0x7461636F, "OCFS2"},
    {0x01021997, "9P"},
}};

}  // namespace

std::string network_file_system(std::uint32_t magic) {
  for (const auto& [number, name] : kNames) {
    if (number == magic) return name;
  }
  return "";
}

std::string network_file_system(const std::filesystem::path& file) {
  struct statfs found {};
  const std::filesystem::path absolute = std::filesystem::absolute(file);
  if (statfs(absolute.c_str(), &found) != 0 &&
      statfs(absolute.parent_path().c_str(), &found) != 0) {
    return "";  // opening it will say what is wrong
  }
  return network_file_system(static_cast<std::uint32_t>(found.f_type));
}

}  // namespace kvsim
