#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "traces/element_type.h"
#include "traces/hdf5/digest.h"
#include "traces/unit.h"

namespace kvsim {

/// Writes a dataset [.., rows, dim] head by head, each in parts or not at all, with its digests.
/// The caller holds the Hdf5Lock.
class HeadWriter {
 public:
  static constexpr hsize_t kMostRowsPerChunk = 1024;

  /// Creates the dataset at the absolute `path`. `leading` is the shape before the rows, whose
  /// product is the number of heads.
  HeadWriter(const H5::H5File& file, const std::string& path, const std::vector<hsize_t>& leading,
             hsize_t rows, hsize_t dim, ElementType elements,
             hsize_t rows_per_chunk = kMostRowsPerChunk);

  /// Writes rows [any, dim] of a head: from its first row on, without a gap, all of one head before
  /// the next one. Throws std::runtime_error for a number that the element type cannot hold,
  /// std::invalid_argument for other rows than those.
  void write(std::size_t head, const Matrix& rows);

  /// Writes the digests and closes the dataset. No call may follow. Throws H5::Exception if what
  /// the library held back cannot be written.
  void finish();

  const H5::DataSet& dataset() const { return dataset_; }

 private:
  std::vector<hsize_t> start_of(std::size_t head, hsize_t row) const;
  /// Throws for the first number of the next rows that the element type cannot hold.
  void fail_to_hold(const Matrix& rows) const;

  H5::DataSet dataset_;
  std::string name_;  ///< of the file and the dataset, for messages
  std::vector<hsize_t> shape_;
  bool half_;
  std::vector<std::uint64_t> digests_;
  Digest digest_;  ///< of the head that is being written
  std::size_t head_ = 0;
  hsize_t next_row_ = 0;
};

}  // namespace kvsim
