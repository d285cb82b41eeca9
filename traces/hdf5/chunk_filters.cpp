#include "traces/hdf5/chunk_filters.h"

#include <libdeflate.h>

#include <array>

namespace kvsim {
namespace {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const {
    libdeflate_free_decompressor(decompressor);
  }
};

libdeflate_decompressor& decompressor_of_thread() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> own(
      libdeflate_alloc_decompressor());
  if (!own) throw std::bad_alloc();
  return *own;
}

bool leaves_out_edges(const H5::DSetCreatPropList& properties) {
  unsigned options = 0;
  return H5Pget_chunk_opts(properties.getId(), &options) < 0 || options != 0;
}

}  // namespace

std::optional<ChunkFilters> ChunkFilters::of(const H5::DataSet& dataset, NumberFormat format) {
  const H5::DSetCreatPropList properties = dataset.getCreatePlist();
  const int count = properties.getNfilters();
  if (count > 2 || leaves_out_edges(properties)) return {};
  ChunkFilters filters(format);
  for (unsigned place = 0; place < static_cast<unsigned>(count); ++place) {
    std::array<unsigned, 8> parameters{};
    std::size_t num_parameters = parameters.size();
    const H5Z_filter_t filter = H5Pget_filter2(properties.getId(), place, nullptr, &num_parameters,
                                               parameters.data(), 0, nullptr, nullptr);
    if (filters.deflate_) return {};  // which comes last
    if (filter == H5Z_FILTER_DEFLATE) {
      filters.deflate_ = place;
    } else if (filter == H5Z_FILTER_SHUFFLE && !filters.shuffle_ && num_parameters == 1 &&
               parameters[0] == static_cast<unsigned>(format.bytes)) {
      filters.shuffle_ = place;
    } else {
      return {};
    }
  }
  return filters;
}

// Beyond this it is no chunk that a filter has made smaller, as it has to, but damage.
std::size_t ChunkFilters::most_packed(std::size_t count) const {
  const std::size_t plain = count * static_cast<std::size_t>(format_.bytes);
  return deflate_ ? 2 * plain + 1024 : plain;
}

std::optional<StoredNumbers> ChunkFilters::unpack(const Packed& chunk, std::size_t count,
                                                  unsigned char* scratch) const {
  const auto is_done = [&](std::optional<unsigned> place) {
    return place && (chunk.skipped >> *place & 1U) == 0;
  };
  const std::size_t size = count * static_cast<std::size_t>(format_.bytes);
  StoredNumbers numbers{chunk.bytes.get(), count, format_, is_done(shuffle_)};
  if (!is_done(deflate_)) return chunk.size == size ? std::optional(numbers) : std::nullopt;
  // With no place for the size it has to be exactly as long as expected.
  if (libdeflate_zlib_decompress(&decompressor_of_thread(), chunk.bytes.get(), chunk.size, scratch,
                                 size, nullptr) != LIBDEFLATE_SUCCESS) {
    return {};
  }
  numbers.bytes = scratch;
  return numbers;
}

}  // namespace kvsim
