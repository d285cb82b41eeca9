#include "sim/results/numpy/file_bytes.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "sim/base/errors.h"

namespace kvsim {

void refuse_file(const std::string& file, const std::string& expected, const std::string& found,
                 const std::string& fix) {
  throw DataError(fmt::format("{}: expected {}, found {}; {}", file, expected, found, fix));
}

std::string bytes_of_file(const std::filesystem::path& file, const std::string& expected) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    refuse_file(file.string(), expected, "a folder", "name the file in it");
  }
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in) {
    refuse_file(file.string(), expected, "none that can be read", "check the path");
  }
  if (size > kMostFileBytes) {
    refuse_file(file.string(), "at most 64 MiB", fmt::format("{} bytes", size), "name " + expected);
  }
  std::ostringstream bytes;
  bytes << in.rdbuf();
  std::string found = bytes.str();
  if (found.size() != size) {
    refuse_file(file.string(), fmt::format("{} bytes", size), fmt::format("{}", found.size()),
                "read it again; it cannot be read, or it has changed");
  }
  return found;
}

}  // namespace kvsim
