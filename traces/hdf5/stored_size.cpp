#include "traces/hdf5/stored_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/packed_rows.h"

namespace kvsim {
namespace {

constexpr hsize_t kTooMany = std::numeric_limits<hsize_t>::max();
constexpr hsize_t kMostGzip = 1032;  // bytes of one stored byte: 258 of two bits

/// kTooMany if the product is that or more, where a number stays what it is.
hsize_t product(hsize_t one, hsize_t other) {
  return one != 0 && other > kTooMany / one ? kTooMany : one * other;
}

std::vector<hsize_t> shape_of(const H5::DataSpace& space) {
  if (space.getSimpleExtentType() != H5S_SIMPLE) return {};
  std::vector<hsize_t> shape(space.getSimpleExtentNdims());
  if (!shape.empty()) space.getSimpleExtentDims(shape.data());
  return shape;
}

hsize_t numbers_in(const std::vector<hsize_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  hsize_t numbers = 1;
  for (const hsize_t size : shape) numbers = product(numbers, size);
  return numbers;
}

hsize_t file_size(const H5::DataSet& dataset) {
  const hid_t file = H5Iget_file_id(dataset.getId());
  hsize_t size = 0;
  H5Fget_filesize(file, &size);
  H5Fclose(file);
  return size;
}

std::vector<H5Z_filter_t> filters_of(const H5::DSetCreatPropList& properties) {
  std::vector<H5Z_filter_t> filters;
  for (int index = 0; index < properties.getNfilters(); ++index) {
    std::size_t no_parameters = 0;
    filters.push_back(H5Pget_filter2(properties.getId(), static_cast<unsigned>(index), nullptr,
                                     &no_parameters, nullptr, 0, nullptr, nullptr));
  }
  return filters;
}

void check_filters(const std::vector<H5Z_filter_t>& filters, const Place& place) {
  const std::string repack = "repack it: h5repack -f SHUF -f GZIP=1 OLD NEW";
  std::set<H5Z_filter_t> seen;
  for (const H5Z_filter_t filter : filters) {
    const bool is_built_in = filter >= H5Z_FILTER_DEFLATE && filter <= H5Z_FILTER_SCALEOFFSET;
    if (!is_built_in || H5Zfilter_avail(filter) <= 0) {
      place.fail("filters that this HDF5 library has", fmt::format("filter {}", filter), repack);
    }
    if (!seen.insert(filter).second) {
      place.fail("every filter once", fmt::format("filter {} twice", filter), repack);
    }
  }
}

/// The most bytes that a stored one may become; kTooMany where there is no such bound.
hsize_t most_of_one_byte(const std::vector<H5Z_filter_t>& filters) {
  hsize_t most = 1;
  for (const H5Z_filter_t filter : filters) {
    if (filter == H5Z_FILTER_DEFLATE) most = kMostGzip;
    if (filter > H5Z_FILTER_FLETCHER32) return kTooMany;
  }
  return most;
}

/// Checks `declared` bytes, of which so many are `stored`.
void check_bytes(hsize_t declared, hsize_t stored, hsize_t most_of_one, hsize_t file,
                 const Place& place, const std::string& fix) {
  if (stored > file) {
    place.fail(fmt::format("at most the {} bytes of the file", file), fmt::format("{}", stored),
               fix);
  }
  if (declared > product(stored, most_of_one)) {
    place.fail(fmt::format("numbers of at most {} bytes, as {} are stored",
                           product(stored, most_of_one), stored),
               declared == kTooMany ? "more than there can be" : fmt::format("{} bytes", declared),
               fix);
  }
}

}  // namespace

hsize_t num_written_chunks(const H5::DataSet& dataset) {
  hsize_t written = 0;
  // H5S_ALL would do as well, but only from HDF5 1.12.1 and 1.10.9 on.
  const H5::DataSpace all = dataset.getSpace();
  if (H5Dget_num_chunks(dataset.getId(), all.getId(), &written) < 0) {
    throw H5::DataSetIException("H5Dget_num_chunks", "the index of chunks cannot be read");
  }
  return written;
}

bool holds_chunk(const H5::DataSet& dataset, const std::vector<hsize_t>& offset) {
  hsize_t bytes = 0;
  herr_t found = -1;
  // HDF5 1.10 fails for a chunk that is not there, which is no error that a writer should count.
  H5E_BEGIN_TRY { found = H5Dget_chunk_storage_size(dataset.getId(), offset.data(), &bytes); }
  H5E_END_TRY
  if (found >= 0 && bytes > 0) return true;
  // This tells, but walks over all chunks.
  unsigned filters = 0;
  haddr_t address = HADDR_UNDEF;
  if (H5Dget_chunk_info_by_coord(dataset.getId(), offset.data(), &filters, &address, &bytes) < 0) {
    throw H5::DataSetIException("H5Dget_chunk_info_by_coord", "the index of chunks is damaged");
  }
  return address != HADDR_UNDEF;
}

void check_stored_size(const H5::DataSet& dataset, const Place& place, const std::string& fix) {
  const H5::DSetCreatPropList properties = dataset.getCreatePlist();
  const H5D_layout_t layout = properties.getLayout();
  const std::string expected = "numbers in the file itself";
  const std::string copy = "write the numbers into the file";
  if (layout == H5D_VIRTUAL) place.fail(expected, "a virtual dataset", copy);
  if (properties.getExternalCount() > 0) place.fail(expected, "those of another file", copy);
  const std::vector<H5Z_filter_t> filters = filters_of(properties);
  check_filters(filters, place);

  const hsize_t element = dataset.getDataType().getSize();
  const H5::DataSpace space = dataset.getSpace();
  const hsize_t declared = product(numbers_in(shape_of(space)), element);
  if (declared == kTooMany) place.fail("a size that there can be", shape_name(space), fix);
  if (layout == H5D_CHUNKED) {
    const hsize_t chunk = product(numbers_in(chunk_shape(dataset)), element);
    if (chunk == 0) place.fail("chunks that have a size", "empty ones", fix);
    const hsize_t written = num_written_chunks(dataset);  // first: what waits is written then
    check_bytes(product(written, chunk), dataset.getStorageSize(), most_of_one_byte(filters),
                file_size(dataset), place, fix);
  } else if (layout == H5D_CONTIGUOUS) {
    const haddr_t address = H5Dget_offset(dataset.getId());
    if (address == HADDR_UNDEF) return;  // never written
    const hsize_t file = file_size(dataset);
    check_bytes(declared, file - std::min<hsize_t>(address, file), 1, file, place, fix);
  }
}

void require_written(const H5::DataSet& dataset, const Place& place, const std::string& fix) {
  const std::vector<hsize_t> shape = shape_of(dataset.getSpace());
  const hsize_t numbers = numbers_in(shape);
  const H5D_layout_t layout = dataset.getCreatePlist().getLayout();
  if (numbers == 0) return;
  if (layout == H5D_CONTIGUOUS && H5Dget_offset(dataset.getId()) == HADDR_UNDEF) {
    place.fail(fmt::format("{} entries", numbers), "none that were written", fix);
  }
  if (layout != H5D_CHUNKED) return;
  const std::vector<hsize_t> chunk = chunk_shape(dataset);
  hsize_t all = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    all = product(all, shape[axis] / chunk[axis] + (shape[axis] % chunk[axis] != 0));
  }
  const hsize_t written = num_written_chunks(dataset);
  if (written != all) {
    place.fail(fmt::format("{} chunks", all), fmt::format("{} that were written", written), fix);
  }
}

}  // namespace kvsim
