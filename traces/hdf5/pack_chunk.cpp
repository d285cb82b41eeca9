#include "traces/hdf5/pack_chunk.h"

#include <libdeflate.h>

#include <new>

namespace kvsim {
namespace {

constexpr int kLevel = 4;

struct FreeCompressor {
  void operator()(libdeflate_compressor* compressor) const {
    libdeflate_free_compressor(compressor);
  }
};

libdeflate_compressor& compressor_of_thread() {
  thread_local const std::unique_ptr<libdeflate_compressor, FreeCompressor> own(
      libdeflate_alloc_compressor(kLevel));
  if (!own) throw std::bad_alloc();
  return *own;
}

/// The first bytes of all numbers, then all second ones.
std::unique_ptr<unsigned char[]> shuffled(std::span<const unsigned char> numbers,
                                          std::size_t width) {
  const std::size_t count = numbers.size() / width;
  std::unique_ptr<unsigned char[]> bytes(new unsigned char[numbers.size()]);
  for (std::size_t place = 0; place < width; ++place) {
    unsigned char* const plane = bytes.get() + place * count;
    for (std::size_t i = 0; i < count; ++i) plane[i] = numbers[i * width + place];
  }
  return bytes;
}

}  // namespace

PackedChunk pack_chunk(std::span<const unsigned char> numbers, std::size_t width) {
  const std::unique_ptr<unsigned char[]> planes = shuffled(numbers, width);
  libdeflate_compressor& compressor = compressor_of_thread();
  const std::size_t most = libdeflate_zlib_compress_bound(&compressor, numbers.size());
  PackedChunk packed{std::unique_ptr<unsigned char[]>(new unsigned char[most]), 0};
  packed.size =
      libdeflate_zlib_compress(&compressor, planes.get(), numbers.size(), packed.bytes.get(), most);
  return packed;
}

}  // namespace kvsim
