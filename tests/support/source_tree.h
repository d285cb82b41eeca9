#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim::house {

// The project's files with one of these extensions, as paths from its root, sorted.
inline std::vector<std::string> source_files(const std::vector<std::string_view>& extensions) {
  namespace fs = std::filesystem;
  const fs::path root = KVSIM_SOURCE_DIR;
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name.starts_with('.') || name.starts_with("build"))) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() &&
               std::count(extensions.begin(), extensions.end(), it->path().extension().string())) {
      files.push_back(it->path().lexically_relative(root).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string read(const std::string& file) {
  std::ifstream in(std::filesystem::path(KVSIM_SOURCE_DIR) / file);
  if (!in) throw std::runtime_error("cannot read " + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace kvsim::house
