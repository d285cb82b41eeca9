#pragma once

#include <string>

namespace kvsim {

/// The location of a group, dataset or attribute in an HDF5 file, for error messages.
struct Place {
  std::string file;
  std::string path;  ///< empty: the file itself

  /// The place of member `name` of this group.
  Place child(const std::string& name) const;
  Place attribute(const std::string& name) const;

  /// Throws DataError: "FILE: PATH: expected EXPECTED, found FOUND; FIX", on one line.
  [[noreturn]] void fail(const std::string& expected, const std::string& found,
                         const std::string& fix = "") const;
};

/// `text` in quotes, cut to 60 characters, with control characters replaced.
std::string in_quotes(const std::string& text);

}  // namespace kvsim
