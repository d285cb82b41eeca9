#pragma once

#include <filesystem>
#include <string>

namespace kvsim {

/// What is found under this name in place of a regular file that can be read, in the words of an
/// error: "no such file", "a directory", "no file that can be read (File name too long)". Empty:
/// there is one. Never throws for what the file system says.
std::string found_instead_of_file(const std::filesystem::path& file);

}  // namespace kvsim
