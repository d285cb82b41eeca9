#include "traces/hdf5/packed_rows.h"

#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "traces/hdf5/hdf5_type.h"

namespace kvsim::packed_rows_test {

using H5::PredType;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Filters = std::function<void(H5::DSetCreatPropList&)>;

constexpr hsize_t kHeads = 3;
constexpr hsize_t kRows = 11;
constexpr hsize_t kDim = 5;
const hsize_t kShape[] = {kHeads, kRows, kDim};

/// Different everywhere and exact in float16; some are subnormal there.
std::vector<float> numbers() {
  std::vector<float> all;
  for (int i = 0; i < int(kHeads * kRows * kDim); ++i) {
    all.push_back(i % 7 == 0 ? float(i) * 0x1p-24F : float(i - 80) / 8);
  }
  return all;
}

struct File {
  traces_test::TemporaryFolder folder;
  H5::H5File h5{(folder / "t.h5").string(), H5F_ACC_TRUNC};

  H5::DataSet create(const std::string& name, const H5::DataType& type,
                     const std::vector<hsize_t>& chunk, const Filters& filter) const {
    H5::DSetCreatPropList properties;
    if (!chunk.empty()) properties.setChunk(3, chunk.data());
    const float fill = 7;
    properties.setFillValue(PredType::NATIVE_FLOAT, &fill);
    filter(properties);
    const hsize_t most[] = {kHeads, chunk.empty() ? kRows : H5S_UNLIMITED, kDim};
    return h5.createDataSet(name, type, H5::DataSpace(3, kShape, most), properties);
  }
};

NumberFormat format_of(const H5::DataSet& dataset) {
  const H5::DataType type = dataset.getDataType();
  return {int(type.getSize()), H5Tget_order(type.getId()) == H5T_ORDER_BE};
}

/// Some rows as they are unpacked without the library.
Matrix unpacked(const H5::DataSet& dataset, hsize_t head, hsize_t first, hsize_t count) {
  Matrix rows = Matrix::Constant(Eigen::Index(count), kDim, NAN);
  const PackedRows packed(dataset, format_of(dataset), {{head}, first, count, kDim});
  REQUIRE(packed.unpack(rows.data()));
  return rows;
}

/// The same as the library reads and converts them.
Matrix by_library(const H5::DataSet& dataset, hsize_t head, hsize_t first, hsize_t count) {
  Matrix rows(Eigen::Index(count), kDim);
  const hsize_t start[] = {head, first, 0};
  const hsize_t size[] = {1, count, kDim};
  const H5::DataSpace file = dataset.getSpace();
  file.selectHyperslab(H5S_SELECT_SET, size, start);
  dataset.read(rows.data(), PredType::NATIVE_FLOAT, H5::DataSpace(3, size), file);
  return rows;
}

void check_all_rows(const H5::DataSet& dataset) {
  for (hsize_t head = 0; head < kHeads; ++head) {
    for (const auto& [first, count] : {std::pair{0, 11}, {0, 4}, {3, 5}, {10, 1}}) {
      CAPTURE(head, first, count);
      CHECK(unpacked(dataset, head, first, count) == by_library(dataset, head, first, count));
    }
  }
}

const std::vector<std::pair<std::string, Filters>> kKnown = {
    {"nothing", [](auto&) {}},
    {"shuffle", [](auto& properties) { properties.setShuffle(); }},
    {"gzip", [](auto& properties) { properties.setDeflate(6); }},
    {"shuffle and gzip",
     [](auto& properties) {
       properties.setShuffle();
       properties.setDeflate(1);
     }},
};

const std::vector<std::pair<std::string, Filters>> kOthers = {
    {"gzip before shuffle",
     [](auto& properties) {
       properties.setDeflate(1);
       properties.setShuffle();
     }},
    {"gzip twice",
     [](auto& properties) {
       properties.setDeflate(1);
       properties.setDeflate(1);
     }},
    {"checksums", [](auto& properties) { properties.setFletcher32(); }},
    {"szip", [](auto& properties) { properties.setSzip(H5_SZIP_NN_OPTION_MASK, 2); }},
    {"edges that are not packed",
     [](auto& properties) {
       properties.setDeflate(1);
       H5Pset_chunk_opts(properties.getId(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
     }},
};

// A function, since HDF5's types are not there before main() where it is an archive.
std::vector<H5::DataType> types() {
  return {half_type(H5T_ORDER_LE), half_type(H5T_ORDER_BE), PredType::IEEE_F32LE,
          PredType::IEEE_F32BE};
}

TEST_CASE("rows are those that the library reads, for every chunk shape and filter") {
  const File file;
  int count = 0;
  for (const auto& filters : {kKnown, kOthers}) {
    for (const auto& [name, filter] : filters) {
      for (const H5::DataType& type : types()) {
        for (const std::vector<hsize_t>& chunk : std::vector<std::vector<hsize_t>>{
                 {1, 11, 5}, {1, 4, 5}, {1, 64, 5}, {1, 3, 2}, {3, 2, 5}, {2, 11, 3}}) {
          INFO(name << ", " << type_name(type) << ", chunk " << chunk[0] << " x " << chunk[1]
                    << " x " << chunk[2]);
          const H5::DataSet dataset = file.create(std::to_string(++count), type, chunk, filter);
          dataset.write(numbers().data(), PredType::NATIVE_FLOAT);
          check_all_rows(dataset);
        }
      }
    }
  }
}

TEST_CASE("rows of a dataset without chunks are those that the library reads") {
  const File file;
  for (const H5::DataType& type : types()) {
    const std::string name = type_name(type) + std::to_string(H5Tget_order(type.getId()));
    const H5::DataSet dataset = file.create(name, type, {}, [](auto&) {});
    dataset.write(numbers().data(), PredType::NATIVE_FLOAT);
    check_all_rows(dataset);
  }
}

TEST_CASE("only filters that are known exactly are undone without the library") {
  const File file;
  const auto is_known = [&](const std::string& name, const Filters& filter, NumberFormat format) {
    return ChunkFilters::of(file.create(name, half_type(), {1, 4, 5}, filter), format).has_value();
  };
  for (const auto& [name, filter] : kKnown) CHECK(is_known(name, filter, {2}));
  for (const auto& [name, filter] : kOthers) CHECK_FALSE(is_known(name, filter, {2}));
  // Shuffled as elements of another size.
  CHECK_FALSE(is_known("wide", [](auto& properties) { properties.setShuffle(); }, {4}));
}

/// A chunk as the file holds it.
std::vector<char> chunk_of(const H5::DataSet& dataset, const hsize_t* offset) {
  hsize_t size = 0;
  H5Dget_chunk_storage_size(dataset.getId(), offset, &size);
  std::vector<char> bytes(size);
  std::uint32_t skipped = 0;
  REQUIRE(H5Dread_chunk(dataset.getId(), H5P_DEFAULT, offset, &skipped, bytes.data()) >= 0);
  REQUIRE(skipped == 0);
  return bytes;
}

void write_chunk(const H5::DataSet& dataset, const hsize_t* offset, const std::vector<char>& bytes,
                 unsigned skipped) {
  REQUIRE(H5Dwrite_chunk(dataset.getId(), H5P_DEFAULT, skipped, offset, bytes.size(),
                         bytes.data()) >= 0);
}

TEST_CASE("a filter that was left out of a chunk is not undone there") {
  const File file;
  const H5::DataSet both = file.create("both", half_type(), {1, 4, 5}, kKnown[3].second);
  const H5::DataSet written = file.create("written", half_type(), {}, [](auto&) {});
  written.write(numbers().data(), PredType::NATIVE_FLOAT);
  hsize_t offset[] = {0, 0, 0};
  for (unsigned skipped = 1; skipped < 4; ++skipped, offset[1] += 4) {
    // Bit 0 is shuffle, bit 1 gzip: the chunk comes from a dataset that has only the other.
    const H5::DataSet other = file.create(std::to_string(skipped), half_type(), {1, 4, 5},
                                          kKnown[skipped == 1   ? 2
                                                 : skipped == 2 ? 1
                                                                : 0]
                                              .second);
    other.write(numbers().data(), PredType::NATIVE_FLOAT);
    file.h5.flush(H5F_SCOPE_GLOBAL);
    write_chunk(both, offset, chunk_of(other, offset), skipped);
  }
  CHECK(unpacked(both, 0, 0, kRows) == by_library(written, 0, 0, kRows));
  CHECK(by_library(both, 0, 0, kRows) == by_library(written, 0, 0, kRows));
}

TEST_CASE("chunks that were never written hold the fill value") {
  const File file;
  const H5::DataSet dataset = file.create("d", half_type(), {1, 4, 5}, kKnown[3].second);
  CHECK(unpacked(dataset, 1, 0, kRows) == Matrix::Constant(kRows, kDim, 7));
}

TEST_CASE("a damaged chunk is distinguished from a sound one") {
  const File file;
  const hsize_t offset[] = {1, 0, 0};
  int count = 0;
  const auto create = [&](hsize_t rows_per_chunk) {
    return file.create(std::to_string(++count), half_type(), {1, rows_per_chunk, 5},
                       kKnown[3].second);
  };
  const auto packed = [&](hsize_t rows_per_chunk) {
    const H5::DataSet dataset = create(rows_per_chunk);
    dataset.write(numbers().data(), PredType::NATIVE_FLOAT);
    return chunk_of(dataset, offset);
  };
  const auto unpacks = [&](const std::vector<char>& bytes, unsigned skipped) {
    // Opened again: the library forgets what was skipped in the chunk that it wrote last.
    write_chunk(create(kRows), offset, bytes, skipped);
    Matrix rows(kRows, kDim);
    return PackedRows(file.h5.openDataSet(std::to_string(count)), {2}, {{1}, 0, kRows, kDim})
        .unpack(rows.data());
  };
  const std::vector<char> sound = packed(kRows);
  CHECK(unpacks(sound, 0));
  for (const std::size_t place : {std::size_t{0}, sound.size() / 2, sound.size() - 1}) {
    std::vector<char> changed = sound;
    changed[place] = static_cast<char>(changed[place] ^ 0x10);
    CHECK_FALSE(unpacks(changed, 0));
  }
  CHECK_FALSE(unpacks({sound.begin(), sound.end() - 5}, 0));
  // Sound streams of fewer and of more numbers than a chunk has.
  CHECK_FALSE(unpacks(packed(kRows - 1), 0));
  CHECK_FALSE(unpacks(packed(kRows + 1), 0));
  constexpr std::size_t kBytes = 2 * kRows * kDim;
  CHECK(unpacks(std::vector<char>(kBytes, 0), 3));
  CHECK_FALSE(unpacks(std::vector<char>(kBytes - 1, 0), 3));
}

}  // namespace kvsim::packed_rows_test
