#pragma once

#include <H5Cpp.h>

#include <optional>
#include <vector>

#include "traces/hdf5/chunk_filters.h"

namespace kvsim {

/// Consecutive rows of one matrix of a dataset as the file stores them. They are fetched under the
/// Hdf5Lock, which takes little more than reading the bytes, and unpacked without it, by as many
/// threads as there are.
class PackedRows {
 public:
  /// Rows `first` .. `first + count - 1` of the matrix that the last two axes of a dataset span.
  struct Selection {
    std::vector<hsize_t> matrix;  ///< its place along the axes before those two
    hsize_t first = 0;
    hsize_t count = 0;
    hsize_t dim = 0;  ///< numbers per row, the dataset's last axis
  };

  /// The filters of a dataset that is fetched chunk by chunk; nothing if the library unpacks it.
  /// The caller holds the Hdf5Lock.
  static std::optional<ChunkFilters> filters_of_chunks(const H5::DataSet& dataset,
                                                       NumberFormat format);

  /// Fetches the rows: chunk by chunk where that can be done, otherwise by the library, which then
  /// unpacks them as well. Throws H5::Exception if they cannot be read. The caller holds the
  /// Hdf5Lock.
  PackedRows(const H5::DataSet& dataset, NumberFormat format, Selection rows);

  /// Writes the rows to `floats`, [count, dim], and gives their bytes, little-endian, to `digest`
  /// unless it is null. Returns false if a chunk is damaged. Needs no lock.
  bool unpack(float* floats, Digest* digest = nullptr) const;

 private:
  /// A rectangle of the matrix, which may reach beyond the selection and the matrix.
  struct Block {
    hsize_t row = 0;
    hsize_t column = 0;
    ChunkFilters::Packed packed;
  };

  bool fetch_chunks(const H5::DataSet& dataset, const std::vector<hsize_t>& chunk);
  void read_by_library(const H5::DataSet& dataset);
  void copy_block(const Block& block, const StoredNumbers& numbers, float* floats,
                  Digest* digest) const;

  NumberFormat format_;
  Selection selection_;
  ChunkFilters filters_;
  hsize_t block_rows_ = 0;
  hsize_t block_columns_ = 0;
  std::vector<Block> blocks_;
};

/// The shape of a dataset's chunks; empty if it is not chunked. The caller holds the Hdf5Lock.
std::vector<hsize_t> chunk_shape(const H5::DataSet& dataset);

}  // namespace kvsim
