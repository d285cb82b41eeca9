#include "traces/head_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/packed_rows.h"
#include "traces/hdf5/stored_size.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {

HeadDataset::HeadDataset(const GroupReader& group, const std::string& name,
                         const std::vector<hsize_t>& shape)
    : place_(group.place().child(name)), fix_(group.fix()), dataset_(group.dataset(name)) {
  check_type();
  check_shape(shape);
  digests_ = read_digests(dataset_, static_cast<std::size_t>(num_heads()), place_, fix_);
  rows_at_once_ = best_rows_at_once();
}

void HeadDataset::check_type() {
  const H5::DataType type = dataset_.getDataType();
  if (!is_float16(type) && !is_float32(type)) {
    place_.fail("float16 or float32", type_name(type), fix_);
  }
  format_ = {.bytes = static_cast<int>(type.getSize()),
             .big_endian = H5Tget_order(type.getId()) == H5T_ORDER_BE};
}

void HeadDataset::check_shape(const std::vector<hsize_t>& expected) {
  const H5::DataSpace space = dataset_.getSpace();
  const bool has_axes = space.getSimpleExtentType() == H5S_SIMPLE;
  shape_.resize(has_axes ? space.getSimpleExtentNdims() : 0);
  if (has_axes) space.getSimpleExtentDims(shape_.data());
  const auto fits = [](hsize_t found, hsize_t wanted) {
    return wanted == kAnySize ? found > 0 : found == wanted;
  };
  if (std::equal(shape_.begin(), shape_.end(), expected.begin(), expected.end(), fits)) {
    check_counts();
    return;
  }
  std::vector<std::string> sizes;
  for (const hsize_t size : expected) {
    sizes.push_back(size == kAnySize ? "any" : fmt::format("{}", size));
  }
  place_.fail(fmt::format("shape [{}]", fmt::join(sizes, ", ")), shape_name(space), fix_);
}

int HeadDataset::num_heads() const {
  hsize_t heads = 1;
  for (std::size_t axis = 0; axis + 2 < shape_.size(); ++axis) heads *= shape_[axis];
  return static_cast<int>(heads);
}

// Heads, rows and columns are counted by int.
void HeadDataset::check_counts() const {
  constexpr hsize_t kMost = std::numeric_limits<int>::max();
  hsize_t heads = 1;
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    if (axis + 2 < shape_.size() && shape_[axis] <= kMost) heads *= shape_[axis];
    if (shape_[axis] <= kMost && heads <= kMost) continue;
    place_.fail(fmt::format("at most {} heads, rows and columns", kMost),
                shape_name(dataset_.getSpace()), fix_);
  }
}

std::vector<hsize_t> HeadDataset::start_of(int head) const {
  std::vector<hsize_t> start(shape_.size(), 0);
  auto rest = static_cast<hsize_t>(head);
  for (std::size_t axis = shape_.size() - 2; axis-- > 0;) {
    start[axis] = rest % shape_[axis];
    rest /= shape_[axis];
  }
  return start;
}

bool HeadDataset::contains(int head) const {
  if (const std::vector<hsize_t> chunk = chunk_shape(dataset_); !chunk.empty()) {
    return chunks_contain(head, chunk);
  }
  H5D_space_status_t status = H5D_SPACE_STATUS_ALLOCATED;
  if (dataset_.getCreatePlist().getLayout() == H5D_CONTIGUOUS) dataset_.getSpaceStatus(status);
  return status != H5D_SPACE_STATUS_NOT_ALLOCATED;
}

bool HeadDataset::chunks_contain(int head, const std::vector<hsize_t>& chunk) const {
  const auto chunks_along = [&](std::size_t axis) {
    return (shape_[axis] + chunk[axis] - 1) / chunk[axis];
  };

  const std::size_t row_axis = shape_.size() - 2;
  const std::size_t dim_axis = shape_.size() - 1;
  hsize_t written = 0;
  std::vector<hsize_t> offset = start_of(head);
  for (std::size_t axis = 0; axis < row_axis; ++axis) offset[axis] -= offset[axis] % chunk[axis];
  for (offset[row_axis] = 0; offset[row_axis] < rows(); offset[row_axis] += chunk[row_axis]) {
    for (offset[dim_axis] = 0; offset[dim_axis] < dim(); offset[dim_axis] += chunk[dim_axis]) {
      // One by one: a damaged index may have the right number of chunks in the wrong places.
      if (holds_chunk(dataset_, offset)) ++written;
    }
  }
  const hsize_t all = chunks_along(row_axis) * chunks_along(dim_axis);
  if (written != 0 && written != all) {
    place_.fail(fmt::format("all of head {} or nothing of it", head),
                fmt::format("{} of {} chunks", written, all), fix_);
  }
  return written != 0;
}

Matrix HeadDataset::read(int head) const {
  HeadDigest digest;
  return read_rows(head, 0, static_cast<int>(rows()), digest);
}

Matrix HeadDataset::read_rows(int head, int first, int count) const {
  return read_rows(head, first, count, nullptr);
}

Matrix HeadDataset::read_rows(int head, int first, int count, HeadDigest& digest) const {
  if (digests_.empty()) return read_rows(head, first, count, nullptr);
  if (first == 0) digest = {};
  const bool follows = digest.next_row == first;
  Matrix matrix = read_rows(head, first, count, follows ? &digest.digest : nullptr);
  if (!follows) return matrix;
  digest.next_row += count;
  if (digest.next_row == static_cast<int>(rows())) {
    check_digest(digests_, static_cast<std::size_t>(head), digest.digest.value(), place_);
  }
  return matrix;
}

std::uint64_t HeadDataset::digest_of(int head) const {
  Digest digest;
  const int num_rows = static_cast<int>(rows());
  for (int first = 0; first < num_rows; first += rows_at_once_) {
    read_rows(head, first, std::min(rows_at_once_, num_rows - first), &digest);
  }
  return digest.value();
}

Matrix HeadDataset::read_rows(int head, int first, int count, Digest* digest) const {
  Matrix matrix = read_blocks(head, first, count, digest);
  check_finite(matrix, head, first);
  return matrix;
}

Matrix HeadDataset::read_blocks(int head, int first, int count, Digest* digest) const {
  Matrix matrix(count, dim());
  for (int row = 0; row < count; row += rows_at_once_) {
    read_block(head, first + row, matrix.middleRows(row, std::min(rows_at_once_, count - row)),
               digest);
  }
  return matrix;
}

void HeadDataset::try_library() const {
  const auto is_unpacked_by_library = [&] {
    const Hdf5Lock lock;
    return !chunk_shape(dataset_).empty() && !PackedRows::filters_of_chunks(dataset_, format_);
  };
  if (!is_unpacked_by_library()) return;
  for (int head = 0; head < num_heads(); ++head) {
    const auto is_there = [&] {
      const Hdf5Lock lock;
      return contains(head);
    };
    if (is_there()) read_blocks(head, 0, static_cast<int>(rows()), nullptr);
  }
}

// A multiple of the chunk length: chunks are unpacked as a whole, and none should be unpacked
// twice.
int HeadDataset::best_rows_at_once() const {
  constexpr hsize_t kMostRows = 4096;
  constexpr hsize_t kNumbers = 1 << 20;  // an MLP's row is a hundred times as wide as a head's
  const hsize_t enough = std::clamp<hsize_t>(kNumbers / dim(), 1, kMostRows);
  const std::vector<hsize_t> chunk = chunk_shape(dataset_);
  if (chunk.empty()) return static_cast<int>(enough);
  const hsize_t rows_per_chunk = chunk[chunk.size() - 2];
  const hsize_t best = (enough + rows_per_chunk - 1) / rows_per_chunk * rows_per_chunk;
  return static_cast<int>(std::min(best, std::max(enough, rows())));
}

void HeadDataset::read_block(int head, hsize_t first, Eigen::Ref<Matrix> block,
                             Digest* digest) const {
  std::vector<hsize_t> matrix = start_of(head);
  matrix.resize(matrix.size() - 2);
  const auto fetch = [&] {
    const Hdf5Lock lock;
    try {
      return PackedRows(dataset_, format_,
                        {std::move(matrix), first, static_cast<hsize_t>(block.rows()), dim()});
    } catch (const H5::Exception&) {
      fail_to_read(head);
    }
  };
  if (!fetch().unpack(block.data(), digest)) fail_to_read(head);
}

void HeadDataset::fail_to_read(int head) const {
  place_.fail("data that HDF5 can read", fmt::format("damage in head {}", head), fix_);
}

void HeadDataset::check_finite(const Matrix& matrix, int head, int first) const {
  if ((matrix.array() * 0).sum() == 0) return;  // of NaN and infinities that is NaN
  for (Eigen::Index row = 0; row < matrix.rows(); ++row) {
    for (Eigen::Index column = 0; column < matrix.cols(); ++column) {
      if (std::isfinite(matrix(row, column))) continue;
      std::vector<hsize_t> index = start_of(head);
      index[index.size() - 2] = static_cast<hsize_t>(first) + static_cast<hsize_t>(row);
      index.back() = static_cast<hsize_t>(column);
      place_.fail("finite numbers",
                  fmt::format("{} at [{}]", matrix(row, column), fmt::join(index, ", ")), fix_);
    }
  }
}

}  // namespace kvsim
