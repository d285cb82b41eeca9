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

  /// Writes one matrix per head as [heads, rows, dim], rounded to `elements`. Throws
  /// std::runtime_error for a number that this type cannot hold.
  void write_heads(const H5::H5File& file, const std::string& path,
                   const std::vector<Matrix>& heads, ElementType elements);

  /// The same of several samples of all heads, as [samples, heads, rows, dim].
  void write_samples(const H5::H5File& file, const std::string& path,
                     const std::vector<std::vector<Matrix>>& samples, ElementType elements);

  /// The same of one matrix, in chunks of so many rows.
  void write_matrix(const H5::H5File& file, const std::string& path, const Matrix& matrix,
                    int rows_per_chunk, ElementType elements);

  /// The SHA-256 of one line per dataset, "PATH DIGEST", sorted by path.
  std::string trace_id() const;

 private:
  /// `leading`: the shape before the rows, whose product is the number of heads.
  void write(const H5::H5File& file, const std::string& path, const std::vector<hsize_t>& leading,
             const std::vector<const Matrix*>& heads, hsize_t rows_per_chunk, ElementType elements);

  std::map<std::string, std::string> digests_;  ///< by path
};

}  // namespace kvsim
