#pragma once

#include <H5Cpp.h>

#include <array>
#include <string>

#include "traces/hdf5/group_reader.h"
#include "traces/unit.h"

namespace kvsim {

/// A dataset [heads, tokens, dim] of a layer, read one head at a time.
class HeadDataset {
 public:
  /// Throws DataError unless the dataset exists, is float16 or float32, and has this shape.
  HeadDataset(const GroupReader& layer, const std::string& name, int heads, int tokens, int dim);

  int element_bytes() const { return element_bytes_; }

  /// Whether the head was written: the file has no storage for one that was not. Throws DataError
  /// if only a part of the head was written.
  bool contains(int head) const;

  /// Reads one head, [tokens, dim]. Throws DataError if the data cannot be read or is not finite.
  Matrix read(int head) const;

 private:
  void check_type();
  void check_shape() const;
  hsize_t tokens_at_once() const;
  void read_tokens(int head, hsize_t first, hsize_t count, Matrix& matrix) const;
  void check_finite(const Matrix& matrix, int head) const;
  bool chunks_contain(int head) const;
  [[noreturn]] void fail_to_read(int head) const;

  Place place_;
  std::string fix_;
  H5::DataSet dataset_;
  std::array<hsize_t, 3> shape_;
  int element_bytes_ = 0;
};

}  // namespace kvsim
