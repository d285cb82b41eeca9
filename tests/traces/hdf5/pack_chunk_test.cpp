#include "traces/hdf5/pack_chunk.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::pack_chunk_test {

constexpr hsize_t kRows = 40;
constexpr hsize_t kDim = 16;

/// The numbers as HDF5 reads them, written past its filters.
template <class Number>
std::vector<Number> read_back(const std::vector<Number>& numbers, const H5::DataType& type) {
  const traces_test::TemporaryFolder folder;
  const H5::H5File file((folder / "t.h5").string(), H5F_ACC_TRUNC);
  const hsize_t shape[] = {kRows, kDim};
  H5::DSetCreatPropList properties;
  properties.setChunk(2, shape);
  properties.setShuffle();
  properties.setDeflate(1);
  const H5::DataSet dataset = file.createDataSet("x", type, H5::DataSpace(2, shape), properties);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(numbers.data());
  const PackedChunk packed = pack_chunk({bytes, numbers.size() * sizeof(Number)}, sizeof(Number));
  const hsize_t start[] = {0, 0};
  REQUIRE(H5Dwrite_chunk(dataset.getId(), H5P_DEFAULT, 0, start, packed.size, packed.bytes.get()) >=
          0);
  std::vector<Number> found(numbers.size());
  dataset.read(found.data(), type);
  return found;
}

TEST_CASE("HDF5 unpacks what is packed without it") {
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;
  for (unsigned i = 0; i < kRows * kDim; ++i) {
    floats.push_back(1.0F / float(i + 1));
    halves.push_back(static_cast<std::uint16_t>(i * 2654435761U >> 16));
  }
  CHECK(read_back(floats, H5::PredType::NATIVE_FLOAT) == floats);
  CHECK(read_back(halves, H5::PredType::NATIVE_UINT16) == halves);
}

TEST_CASE("Numbers that repeat become few bytes, and others hardly more than they were") {
  const std::vector<unsigned char> zeros(65536);
  CHECK(pack_chunk(zeros, 4).size < 200);
  std::vector<unsigned char> noise;
  for (unsigned i = 0, state = 1; i < 65536; ++i) {
    state = state * 1664525U + 1013904223U;
    noise.push_back(static_cast<unsigned char>(state >> 24));
  }
  CHECK(pack_chunk(noise, 2).size < 66000);
}

}  // namespace kvsim::pack_chunk_test
