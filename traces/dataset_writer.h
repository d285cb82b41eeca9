#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "traces/trace_writer.h"

namespace kvsim {

/// Writes the datasets of one trace and hashes their elements for the trace_id.
class DatasetWriter {
 public:
  /// Writes a list of numbers at the absolute `path` of the file.
  void write_list(const H5::H5File& file, const std::string& path, const H5::PredType& type,
                  const void* numbers, std::size_t length);

  /// Writes a list of UTF-8 strings, none of which holds a zero byte.
  void write_texts(const H5::H5File& file, const std::string& path,
                   const std::vector<std::string>& texts);

  /// Writes one matrix per head as [heads, tokens, dim], rounded to `elements`. Throws
  /// std::runtime_error for a number that this type cannot hold.
  void write_heads(const H5::H5File& file, const std::string& path,
                   const std::vector<Matrix>& heads, ElementType elements);

  /// The SHA-256 of one line per dataset, "PATH DIGEST", sorted by path.
  std::string trace_id() const;

 private:
  std::map<std::string, std::string> digests_;  ///< by path
};

}  // namespace kvsim
