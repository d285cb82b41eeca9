#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "traces/datasets.h"
#include "traces/hdf5/digest.h"
#include "traces/hdf5/group_reader.h"
#include "traces/hdf5/stored_numbers.h"
#include "traces/unit.h"

namespace kvsim {

/// The digest of a head whose rows are read in order, part by part; a reader that begins again at
/// row 0 starts it anew.
struct HeadDigest {
  Digest digest;
  int next_row = 0;
};

/// A dataset [heads, rows, dim], read one head at a time. There may be more axes before the rows,
/// or none: heads count through all of them in the order of the file, [samples, heads, rows, dim]
/// being samples * heads heads and [rows, dim] one. Only reading takes the Hdf5Lock itself; for all
/// else the caller holds it.
class HeadDataset {
 public:
  static constexpr hsize_t kAnySize = 0;

  /// Throws DataError unless the dataset exists, is float16 or float32, and has this shape, in
  /// which an axis may have kAnySize, 1 or more.
  HeadDataset(const GroupReader& group, const std::string& name, const std::vector<hsize_t>& shape);

  /// The same of any shape with as many axes as declared.
  static HeadDataset of_any_size(const GroupReader& group, const DatasetInfo& info) {
    return {group, std::string(info.name),
            std::vector<hsize_t>(static_cast<std::size_t>(info.num_axes()), kAnySize)};
  }

  int element_bytes() const { return format_.bytes; }
  int size(int axis) const { return static_cast<int>(shape_[axis]); }
  const Place& place() const { return place_; }
  const std::string& fix() const { return fix_; }
  const std::vector<hsize_t>& shape() const { return shape_; }
  int num_heads() const;
  AttributeReader attributes() const { return {dataset_, place_, fix_}; }

  /// Whether the head was written: the file has no storage for one that was not. Throws DataError
  /// if only a part of the head was written.
  bool contains(int head) const;

  /// One per head, as recorded; empty in a file of version 1.
  const std::vector<std::uint64_t>& digests() const { return digests_; }

  /// Reads one head, [rows, dim]. Throws DataError if the data cannot be read, is not finite or has
  /// another digest than the recorded one. The caller does not hold the Hdf5Lock, so that several
  /// threads unpack data at once.
  Matrix read(int head) const;

  /// The same of some rows, best as many as rows_at_once(). Their digest cannot be checked.
  Matrix read_rows(int head, int first, int count) const;

  /// The same of rows that are read in order; with the last ones the digest is checked.
  Matrix read_rows(int head, int first, int count, HeadDigest& digest) const;

  /// The digest of the numbers that one head has now, read some rows at a time. Throws DataError if
  /// they cannot be read or are not finite. The caller does not hold the Hdf5Lock.
  std::uint64_t digest_of(int head) const;

  /// Reads all heads, unchecked, if it is the library that unpacks them. Throws DataError for
  /// damage.
  void try_library() const;

  /// How many rows to read at once, to unpack no part of the file twice and keep memory small.
  int rows_at_once() const { return rows_at_once_; }

 private:
  void check_type();
  void check_shape(const std::vector<hsize_t>& expected);
  void check_counts() const;
  std::vector<hsize_t> start_of(int head) const;
  hsize_t rows() const { return shape_[shape_.size() - 2]; }
  hsize_t dim() const { return shape_.back(); }
  int best_rows_at_once() const;
  Matrix read_rows(int head, int first, int count, Digest* digest) const;
  Matrix read_blocks(int head, int first, int count, Digest* digest) const;
  void read_block(int head, hsize_t first, Eigen::Ref<Matrix> block, Digest* digest) const;
  void check_finite(const Matrix& matrix, int head, int first) const;
  bool chunks_contain(int head, const std::vector<hsize_t>& chunk) const;
  [[noreturn]] void fail_to_read(int head) const;

  Place place_;
  std::string fix_;
  H5::DataSet dataset_;
  std::vector<hsize_t> shape_;
  NumberFormat format_;
  std::vector<std::uint64_t> digests_;
  int rows_at_once_ = 0;
};

}  // namespace kvsim
