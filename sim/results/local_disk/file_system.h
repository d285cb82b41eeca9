#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvsim {

/// The name of a file system that machines share, or that a program of its own serves (FUSE), by
/// its number in statfs(2): "NFS", "Lustre"; empty for a local one.
std::string network_file_system(std::uint32_t magic);

/// The same of the file system of a file, or of the folder that it would lie in.
std::string network_file_system(const std::filesystem::path& file);

}  // namespace kvsim
