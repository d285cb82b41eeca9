#include "traces/dataset_writer.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

#include "traces/hdf5/utf8.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {
namespace {

hsize_t rows_of(const Matrix& matrix) { return static_cast<hsize_t>(matrix.rows()); }
hsize_t columns_of(const Matrix& matrix) { return static_cast<hsize_t>(matrix.cols()); }

}  // namespace

void write_list(const H5::H5File& file, const std::string& path, const H5::DataType& type,
                const void* numbers, const std::vector<hsize_t>& shape) {
  H5::DSetCreatPropList properties;
  H5Pset_obj_track_times(properties.getId(), false);  // see HeadWriter
  const H5::DataSpace space(static_cast<int>(shape.size()), shape.data());
  const H5::DataSet dataset = file.createDataSet(path, type, space, properties);
  const auto length = static_cast<std::size_t>(space.getSimpleExtentNpoints());
  if (length > 0) dataset.write(numbers, type);
  Digest digest;
  digest.update(numbers, length * type.getSize());
  write_digests(dataset, {digest.value()});
}

void write_texts(const H5::H5File& file, const std::string& path,
                 const std::vector<std::string>& texts) {
  std::string bytes;
  std::vector<std::int64_t> offsets{0};
  for (const std::string& text : texts) {
    if (!is_utf8(text)) {
      throw std::invalid_argument(
          fmt::format("{}: expected UTF-8 at [{}]", path, offsets.size() - 1));
    }
    bytes += text;
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  write_list(file, path, H5::PredType::STD_U8LE, bytes.data(), {bytes.size()});
  write_list(file, path + "_offsets", H5::PredType::STD_I64LE, offsets.data(), {offsets.size()});
}

void write_heads(const H5::H5File& file, const std::string& path, const std::vector<Matrix>& heads,
                 ElementType elements) {
  HeadWriter writer(file, path, {heads.size()}, rows_of(heads.front()), columns_of(heads.front()),
                    elements);
  for (std::size_t head = 0; head < heads.size(); ++head) writer.write(head, heads[head]);
  writer.finish();
}

void write_samples(const H5::H5File& file, const std::string& path,
                   const std::vector<std::vector<Matrix>>& samples, ElementType elements) {
  const Matrix& first = samples.front().front();
  HeadWriter writer(file, path, {samples.size(), samples.front().size()}, rows_of(first),
                    columns_of(first), elements);
  std::size_t index = 0;
  for (const std::vector<Matrix>& heads : samples) {
    for (const Matrix& head : heads) writer.write(index++, head);
  }
  writer.finish();
}

void write_matrix(const H5::H5File& file, const std::string& path, const Matrix& matrix,
                  int rows_per_chunk, ElementType elements) {
  HeadWriter writer(file, path, {}, rows_of(matrix), columns_of(matrix), elements,
                    static_cast<hsize_t>(rows_per_chunk));
  writer.write(0, matrix);
  writer.finish();
}

}  // namespace kvsim
