#pragma once

#include <H5Ipublic.h>

#include <cstddef>
#include <cstdint>

/// Of libhdf5, which exports it: Jenkins' lookup3, the checksum of the structures of a file.
extern "C" std::uint32_t H5_checksum_metadata(const void* data, std::size_t size,
                                              std::uint32_t start);

namespace kvsim::faults {

inline std::uint32_t hdf5_checksum(const std::uint8_t* data, std::size_t size) {
  return H5_checksum_metadata(data, size, 0);
}

}  // namespace kvsim::faults
