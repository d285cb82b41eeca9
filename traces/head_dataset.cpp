#include "traces/head_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/hdf5/hdf5_type.h"

namespace kvsim {

HeadDataset::HeadDataset(const GroupReader& layer, const std::string& name, int heads, int tokens,
                         int dim)
    : place_(layer.place().child(name)),
      fix_(layer.fix()),
      dataset_(layer.dataset(name)),
      shape_{static_cast<hsize_t>(heads), static_cast<hsize_t>(tokens), static_cast<hsize_t>(dim)} {
  check_type();
  check_shape();
}

void HeadDataset::check_type() {
  const H5::DataType type = dataset_.getDataType();
  if (!is_float16(type) && !is_float32(type)) {
    place_.fail("float16 or float32", type_name(type), fix_);
  }
  element_bytes_ = static_cast<int>(type.getSize());
}

void HeadDataset::check_shape() const {
  const std::string expected = shape_name(H5::DataSpace(3, shape_.data()));
  const std::string found = shape_name(dataset_.getSpace());
  if (found != expected) place_.fail("shape " + expected, found, fix_);
}

bool HeadDataset::contains(int head) const {
  const H5::DSetCreatPropList properties = dataset_.getCreatePlist();
  if (properties.getLayout() == H5D_CONTIGUOUS) {
    H5D_space_status_t status = H5D_SPACE_STATUS_NOT_ALLOCATED;
    dataset_.getSpaceStatus(status);
    return status != H5D_SPACE_STATUS_NOT_ALLOCATED;
  }
  return properties.getLayout() != H5D_CHUNKED || chunks_contain(head);
}

bool HeadDataset::chunks_contain(int head) const {
  std::array<hsize_t, 3> chunk{};
  dataset_.getCreatePlist().getChunk(3, chunk.data());
  const auto chunks_along = [&](int axis) {
    return (shape_[axis] + chunk[axis] - 1) / chunk[axis];
  };

  // HDF5 walks over all chunks to find one, so one count settles the usual case.
  hsize_t written_chunks = 0;
  H5Dget_num_chunks(dataset_.getId(), H5S_ALL, &written_chunks);
  if (written_chunks == chunks_along(0) * chunks_along(1) * chunks_along(2)) return true;

  hsize_t written = 0;
  std::array<hsize_t, 3> offset{head / chunk[0] * chunk[0], 0, 0};
  for (offset[1] = 0; offset[1] < shape_[1]; offset[1] += chunk[1]) {
    for (offset[2] = 0; offset[2] < shape_[2]; offset[2] += chunk[2]) {
      unsigned filters = 0;
      haddr_t address = HADDR_UNDEF;
      hsize_t bytes = 0;
      H5Dget_chunk_info_by_coord(dataset_.getId(), offset.data(), &filters, &address, &bytes);
      if (address != HADDR_UNDEF) ++written;
    }
  }
  const hsize_t all = chunks_along(1) * chunks_along(2);
  if (written != 0 && written != all) {
    place_.fail(fmt::format("all of head {} or nothing of it", head),
                fmt::format("{} of {} chunks", written, all), fix_);
  }
  return written != 0;
}

Matrix HeadDataset::read(int head) const {
  Matrix matrix(shape_[1], shape_[2]);
  const hsize_t at_once = tokens_at_once();
  try {
    for (hsize_t first = 0; first < shape_[1]; first += at_once) {
      read_tokens(head, first, std::min(at_once, shape_[1] - first), matrix);
    }
  } catch (const H5::Exception&) {
    fail_to_read(head);
  }
  check_finite(matrix, head);
  return matrix;
}

// A multiple of the chunk length: HDF5 unpacks whole chunks, and none should be unpacked twice.
hsize_t HeadDataset::tokens_at_once() const {
  constexpr hsize_t kTokens = 4096;
  const H5::DSetCreatPropList properties = dataset_.getCreatePlist();
  if (properties.getLayout() != H5D_CHUNKED) return kTokens;
  std::array<hsize_t, 3> chunk{};
  properties.getChunk(3, chunk.data());
  return (kTokens + chunk[1] - 1) / chunk[1] * chunk[1];
}

void HeadDataset::read_tokens(int head, hsize_t first, hsize_t count, Matrix& matrix) const {
  const std::array<hsize_t, 3> start{static_cast<hsize_t>(head), first, 0};
  const std::array<hsize_t, 3> size{1, count, shape_[2]};
  const H5::DataSpace memory(3, size.data());
  const H5::DataSpace file = dataset_.getSpace();
  file.selectHyperslab(H5S_SELECT_SET, size.data(), start.data());
  const auto row = static_cast<Eigen::Index>(first);
  if (element_bytes_ == 2) {
    // HDF5 converts half precision bit by bit. Reading halves unconverted and converting them with
    // Eigen takes a fraction of the time.
    HalfMatrix halves(count, shape_[2]);
    dataset_.read(halves.data(), half_type(), memory, file);
    matrix.middleRows(row, halves.rows()) = halves.cast<float>();
  } else {
    dataset_.read(matrix.row(row).data(), H5::PredType::NATIVE_FLOAT, memory, file);
  }
}

void HeadDataset::fail_to_read(int head) const {
  const H5::DSetCreatPropList properties = dataset_.getCreatePlist();
  for (int index = 0; index < properties.getNfilters(); ++index) {
    std::size_t no_parameters = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(properties.getId(), static_cast<unsigned>(index), nullptr, &no_parameters,
                       nullptr, 0, nullptr, nullptr);
    if (H5Zfilter_avail(filter) <= 0) {
      place_.fail("filters that this HDF5 library has", fmt::format("filter {}", filter),
                  "install its plugin or pack the file with gzip");
    }
  }
  place_.fail("data that HDF5 can read", fmt::format("damage in head {}", head), fix_);
}

void HeadDataset::check_finite(const Matrix& matrix, int head) const {
  for (Eigen::Index token = 0; token < matrix.rows(); ++token) {
    for (Eigen::Index dim = 0; dim < matrix.cols(); ++dim) {
      if (!std::isfinite(matrix(token, dim))) {
        place_.fail("finite numbers",
                    fmt::format("{} at [{}, {}, {}]", matrix(token, dim), head, token, dim), fix_);
      }
    }
  }
}

}  // namespace kvsim
