#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "traces/hdf5/stored_numbers.h"

namespace kvsim {

/// Undoes what HDF5's filters did to a chunk, without HDF5 and its lock: any of nothing, shuffle,
/// gzip, and shuffle before gzip.
class ChunkFilters {
 public:
  /// The filters of the dataset, which is chunked. Returns nothing if they are others, if they
  /// leave out chunks that the dataset does not fill, or if they shuffle other elements than those
  /// of `format`. The caller holds the Hdf5Lock.
  static std::optional<ChunkFilters> of(const H5::DataSet& dataset, NumberFormat format);

  /// For numbers that no filter has touched.
  explicit ChunkFilters(NumberFormat format) : format_(format) {}

  /// A chunk as the file holds it. Bit i of `skipped` says that filter i was left out of it.
  struct Packed {
    std::unique_ptr<unsigned char[]> bytes;
    std::size_t size = 0;
    unsigned skipped = 0;
  };

  /// The most bytes that so many numbers come to if the chunk is sound.
  std::size_t most_packed(std::size_t count) const;

  /// The `count` numbers of the chunk, which may stand in its own bytes or in `scratch`, of `count`
  /// elements. Nothing if the chunk is damaged.
  std::optional<StoredNumbers> unpack(const Packed& chunk, std::size_t count,
                                      unsigned char* scratch) const;

 private:
  NumberFormat format_;
  std::optional<unsigned> shuffle_;  // their places in the pipeline
  std::optional<unsigned> deflate_;
};

}  // namespace kvsim
