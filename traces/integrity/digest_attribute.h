#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "traces/hdf5/place.h"

namespace kvsim {

// The attribute `digests` of the datasets of version 2: one number per head, 0 for a head that was
// not written, or one for the whole of a list. The caller holds the Hdf5Lock.

/// The numbers of the attribute; empty if the dataset lacks it. Throws DataError unless there are
/// `count` of them.
std::vector<std::uint64_t> read_digests(const H5::DataSet& dataset, std::size_t count,
                                        const Place& place, const std::string& fix);

void write_digests(const H5::DataSet& dataset, const std::vector<std::uint64_t>& digests);

/// Throws DataError if the dataset has a digest for `head` and it is not `found`.
void check_digest(const std::vector<std::uint64_t>& digests, std::size_t head, std::uint64_t found,
                  const Place& place);

/// The elements of a list of numbers, little-endian, as they are digested. Throws DataError if the
/// dataset has a digest and it is that of others.
std::vector<unsigned char> read_elements(const H5::DataSet& dataset, const Place& place,
                                         const std::string& fix);

/// The same as numbers, whose type has the size of the dataset's elements.
template <class Number>
std::vector<Number> read_list(const H5::DataSet& dataset, const Place& place,
                              const std::string& fix) {
  const std::vector<unsigned char> bytes = read_elements(dataset, place, fix);
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

}  // namespace kvsim
