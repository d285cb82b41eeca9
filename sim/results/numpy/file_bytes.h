#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvsim {

/// The most that a file, or all members of an .npz file together, may have.
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20U;

/// Throws the DataError of a file that holds something else, in one line.
[[noreturn]] void refuse_file(const std::string& file, const std::string& expected,
                              const std::string& found, const std::string& fix);

/// The bytes of a file that should be `expected` ("a file of numbers per head"). Throws DataError
/// for one that cannot be read or is larger than 64 MiB.
std::string bytes_of_file(const std::filesystem::path& file, const std::string& expected);

}  // namespace kvsim
