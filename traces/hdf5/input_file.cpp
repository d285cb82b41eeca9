#include "traces/hdf5/input_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kvsim {

std::string found_instead_of_file(const std::filesystem::path& file) {
  const auto unreadable = [](const std::error_code& reason) {
    return fmt::format("no file that can be read ({})", reason.message());
  };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) return "no such file";
  if (error) return unreadable(error);
  if (is_directory(status)) return "a directory";
  if (!is_regular_file(status)) return "something that is no regular file";
  if (access(file.c_str(), R_OK) != 0) return unreadable({errno, std::generic_category()});
  return "";
}

}  // namespace kvsim
