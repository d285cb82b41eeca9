#include "traces/head_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "traces/hdf5/hdf5_type.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {
namespace {

static_assert(std::endian::native == std::endian::little,
              "digests are of elements as they lie in memory");

constexpr unsigned kGzipLevel = 1;

H5::FloatType type_of(bool half) {
  return half ? half_type() : H5::FloatType(H5::PredType::IEEE_F32LE);
}

}  // namespace

HeadWriter::HeadWriter(const H5::H5File& file, const std::string& path,
                       const std::vector<hsize_t>& leading, hsize_t rows, hsize_t dim,
                       ElementType elements, hsize_t rows_per_chunk)
    : name_(file.getFileName() + ": " + path),
      shape_(leading),
      half_(elements == ElementType::float16),
      digests_(std::accumulate(leading.begin(), leading.end(), hsize_t{1}, std::multiplies<>())) {
  shape_.insert(shape_.end(), {rows, dim});
  std::vector<hsize_t> chunk(leading.size(), 1);
  chunk.insert(chunk.end(), {std::min(rows, rows_per_chunk), dim});
  const auto rank = static_cast<int>(shape_.size());
  H5::DSetCreatPropList properties;
  // Without the modification time that HDF5 would record in every dataset, equal contents give
  // equal files.
  H5Pset_obj_track_times(properties.getId(), false);
  properties.setChunk(rank, chunk.data());
  // A filter that setShuffle() and setDeflate() add is skipped where it finds no memory, and the
  // bytes of the file would depend on that.
  properties.setFilter(H5Z_FILTER_SHUFFLE, H5Z_FLAG_MANDATORY, 0, nullptr);
  properties.setFilter(H5Z_FILTER_DEFLATE, H5Z_FLAG_MANDATORY, 1, &kGzipLevel);
  dataset_ =
      file.createDataSet(path, type_of(half_), H5::DataSpace(rank, shape_.data()), properties);
}

void HeadWriter::write(std::size_t head, const Matrix& rows) {
  const hsize_t num_rows = shape_[shape_.size() - 2];
  const bool begins = next_row_ == 0 || next_row_ == num_rows;
  if (begins) {
    head_ = head;
    next_row_ = 0;
    digest_.restart();
  }
  const auto count = static_cast<hsize_t>(rows.rows());
  if (head != head_ || head >= digests_.size() || count == 0 || next_row_ + count > num_rows ||
      static_cast<hsize_t>(rows.cols()) != shape_.back()) {
    throw std::invalid_argument(name_ + ": rows out of order or of another shape");
  }
  const HalfMatrix halves = half_ ? HalfMatrix(rows.cast<Eigen::half>()) : HalfMatrix();
  if (!rows.allFinite() || !halves.cast<float>().allFinite()) fail_to_hold(rows);
  const void* bytes = half_ ? static_cast<const void*>(halves.data()) : rows.data();

  std::vector<hsize_t> size(shape_.size(), 1);
  size[size.size() - 2] = count;
  size.back() = shape_.back();
  const std::vector<hsize_t> start = start_of(head, next_row_);
  H5::DataSpace selection = dataset_.getSpace();
  selection.selectHyperslab(H5S_SELECT_SET, size.data(), start.data());
  const H5::FloatType type = type_of(half_);
  dataset_.write(bytes, type, H5::DataSpace(static_cast<int>(size.size()), size.data()), selection);
  digest_.update(bytes, count * shape_.back() * type.getSize());
  next_row_ += count;
  if (next_row_ == num_rows) digests_[head] = digest_.value();
}

/// Where a row of a head begins.
std::vector<hsize_t> HeadWriter::start_of(std::size_t head, hsize_t row) const {
  std::vector<hsize_t> start(shape_.size(), 0);
  start[start.size() - 2] = row;
  hsize_t rest = head;
  for (std::size_t axis = shape_.size() - 2; axis-- > 0; rest /= shape_[axis]) {
    start[axis] = rest % shape_[axis];
  }
  return start;
}

void HeadWriter::fail_to_hold(const Matrix& rows) const {
  const Matrix stored = half_ ? Matrix(rows.cast<Eigen::half>().cast<float>()) : rows;
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    for (Eigen::Index column = 0; column < rows.cols(); ++column) {
      if (std::isfinite(stored(row, column))) continue;
      std::vector<hsize_t> index = start_of(head_, next_row_ + static_cast<hsize_t>(row));
      index.back() = static_cast<hsize_t>(column);
      throw std::runtime_error(fmt::format("{}: expected numbers finite in {}, found {} at [{}]",
                                           name_, half_ ? "float16" : "float32", rows(row, column),
                                           fmt::join(index, ", ")));
    }
  }
}

void HeadWriter::finish() {
  if (next_row_ != 0 && next_row_ != shape_[shape_.size() - 2]) {
    throw std::invalid_argument(fmt::format("{}: head {} is written in part", name_, head_));
  }
  write_digests(dataset_, digests_);
  dataset_.close();  // not by a destructor, which could not say that the last chunks are lost
}

}  // namespace kvsim
