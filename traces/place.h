#pragma once

#include <string>

namespace kvsim {

/// A group, dataset or attribute of a trace file, as errors name it.
struct Place {
  std::string file;
  std::string path;  ///< empty: the file itself

  /// What `name` is called inside this group.
  Place child(const std::string& name) const;
  Place attribute(const std::string& name) const;

  /// Throws DataError: "FILE: PATH: expected EXPECTED, found FOUND; FIX", on one line.
  [[noreturn]] void fail(const std::string& expected, const std::string& found,
                         const std::string& fix = "") const;
};

/// `text` in quotes, short and on one line whatever it holds.
std::string in_quotes(const std::string& text);

}  // namespace kvsim
