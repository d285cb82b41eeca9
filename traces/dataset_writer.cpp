#include "traces/dataset_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "traces/hdf5/hdf5_type.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the trace_id digests elements as they lie in memory");

constexpr hsize_t kMostRowsPerChunk = 1024;
constexpr int kGzipLevel = 1;

/// Without the modification time that HDF5 would record in every dataset, equal contents give equal
/// files.
H5::DSetCreatPropList without_times() {
  H5::DSetCreatPropList properties;
  H5Pset_obj_track_times(properties.getId(), false);
  return properties;
}

}  // namespace

void DatasetWriter::write_list(const H5::H5File& file, const std::string& path,
                               const H5::PredType& type, const void* numbers, std::size_t length) {
  const hsize_t shape = length;
  file.createDataSet(path, type, H5::DataSpace(1, &shape), without_times()).write(numbers, type);
  Sha256 digest;
  digest.update(numbers, length * type.getSize());
  digests_[path] = digest.finish();
}

void DatasetWriter::write_texts(const H5::H5File& file, const std::string& path,
                                const std::vector<std::string>& texts) {
  H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
  type.setCset(H5T_CSET_UTF8);
  std::vector<const char*> pointers;
  Sha256 digest;
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
    digest.update(text.c_str(), text.size() + 1);
  }
  const hsize_t shape = texts.size();
  file.createDataSet(path, type, H5::DataSpace(1, &shape), without_times())
      .write(pointers.data(), type);
  digests_[path] = digest.finish();
}

void DatasetWriter::write_heads(const H5::H5File& file, const std::string& path,
                                const std::vector<Matrix>& heads, ElementType elements) {
  std::vector<const Matrix*> pointers;
  for (const Matrix& head : heads) pointers.push_back(&head);
  write(file, path, {heads.size()}, pointers, kMostRowsPerChunk, elements);
}

void DatasetWriter::write_samples(const H5::H5File& file, const std::string& path,
                                  const std::vector<std::vector<Matrix>>& samples,
                                  ElementType elements) {
  std::vector<const Matrix*> pointers;
  for (const std::vector<Matrix>& heads : samples) {
    for (const Matrix& head : heads) pointers.push_back(&head);
  }
  write(file, path, {samples.size(), samples.front().size()}, pointers, kMostRowsPerChunk,
        elements);
}

void DatasetWriter::write_matrix(const H5::H5File& file, const std::string& path,
                                 const Matrix& matrix, int rows_per_chunk, ElementType elements) {
  write(file, path, {}, {&matrix}, static_cast<hsize_t>(rows_per_chunk), elements);
}

void DatasetWriter::write(const H5::H5File& file, const std::string& path,
                          const std::vector<hsize_t>& leading,
                          const std::vector<const Matrix*>& heads, hsize_t rows_per_chunk,
                          ElementType elements) {
  const auto rows = static_cast<hsize_t>(heads.front()->rows());
  const auto dim = static_cast<hsize_t>(heads.front()->cols());
  const auto shape_of = [&](std::vector<hsize_t> shape, hsize_t shape_rows) {
    shape.push_back(shape_rows);
    shape.push_back(dim);
    return shape;
  };
  const std::vector<hsize_t> one(leading.size(), 1);
  const std::vector<hsize_t> shape = shape_of(leading, rows);
  const std::vector<hsize_t> head_shape = shape_of(one, rows);
  const std::vector<hsize_t> chunk = shape_of(one, std::min(rows, rows_per_chunk));
  const auto rank = static_cast<int>(shape.size());
  H5::DSetCreatPropList properties = without_times();
  properties.setChunk(rank, chunk.data());
  properties.setShuffle();
  properties.setDeflate(kGzipLevel);

  const bool half = elements == ElementType::float16;
  const H5::FloatType type = half ? half_type() : H5::FloatType(H5::PredType::IEEE_F32LE);
  const H5::DataSpace memory(rank, head_shape.data());
  H5::DataSpace selection(rank, shape.data());
  const H5::DataSet dataset = file.createDataSet(path, type, selection, properties);
  Sha256 digest;
  std::vector<hsize_t> start(rank, 0);
  for (std::size_t head = 0; head < heads.size(); ++head) {
    const Matrix& numbers = *heads[head];
    const HalfMatrix halves = half ? HalfMatrix(numbers.cast<Eigen::half>()) : HalfMatrix();
    if (!numbers.allFinite() || !halves.cast<float>().allFinite()) {
      throw std::runtime_error(fmt::format("{}: {}: head {} holds a number that no {} can hold",
                                           file.getFileName(), path, head,
                                           half ? "float16" : "float32"));
    }
    const void* bytes = half ? static_cast<const void*>(halves.data()) : numbers.data();
    hsize_t rest = head;
    for (std::size_t axis = leading.size(); axis-- > 0; rest /= leading[axis]) {
      start[axis] = rest % leading[axis];
    }
    selection.selectHyperslab(H5S_SELECT_SET, head_shape.data(), start.data());
    dataset.write(bytes, type, memory, selection);
    digest.update(bytes, rows * dim * type.getSize());
  }
  digests_[path] = digest.finish();
}

std::string DatasetWriter::trace_id() const {
  std::string lines;
  for (const auto& [path, digest] : digests_) lines += fmt::format("{} {}\n", path, digest);
  return sha256(lines);
}

}  // namespace kvsim
