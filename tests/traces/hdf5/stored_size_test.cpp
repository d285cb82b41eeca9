#include "traces/hdf5/stored_size.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "traces/hdf5/group_reader.h"
#include "traces/hdf5/hdf5_lock.h"

namespace kvsim::traces_test::stored_size_test {

using H5::PredType;
using Shape = std::vector<hsize_t>;

/// A file with one dataset of floats, "x".
class OneDataset {
 public:
  explicit OneDataset(const H5::DSetCreatPropList& properties, const Shape& shape = {8},
                      const Shape& most = {})
      : file_((folder_ / "t.h5").string(), H5F_ACC_TRUNC) {
    const H5::DataSpace space(static_cast<int>(shape.size()), shape.data(),
                              most.empty() ? nullptr : most.data());
    dataset_ = file_.createDataSet("x", PredType::IEEE_F32LE, space, properties);
  }

  const H5::DataSet& dataset() const { return dataset_; }
  const H5::H5File& file() const { return file_; }

  /// Packed as a chunk of the dataset.
  void write_chunk(const Shape& offset, const std::string& bytes) const {
    H5Dwrite_chunk(dataset_.getId(), H5P_DEFAULT, 0, offset.data(), bytes.size(), bytes.data());
  }

  /// The error of opening it, without the path that it begins with.
  std::string error(bool written = false) const {
    const Place place{"t.h5", "/"};
    try {
      const H5::DataSet found = GroupReader(place, file_.openGroup("/"), "mend it").dataset("x");
      if (written) require_written(found, place.child("x"), "mend it");
    } catch (const DataError& error) {
      const std::string_view front = "t.h5: /x: ";
      const std::string text = error.what();
      CHECK_THAT(text, Catch::StartsWith(std::string(front)));
      return text.substr(front.size());
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
  H5::H5File file_;
  H5::DataSet dataset_;
};

H5::DSetCreatPropList chunks_of(const Shape& chunk) {
  H5::DSetCreatPropList properties;
  properties.setChunk(static_cast<int>(chunk.size()), chunk.data());
  return properties;
}

H5::DSetCreatPropList with_filter(H5Z_filter_t filter) {
  H5::DSetCreatPropList properties = chunks_of({8});
  H5Pset_filter(properties.getId(), filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
  return properties;
}

std::string whole(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Puts another number, of 8 bytes, in every place of the file where one stands.
void replace_number(const std::filesystem::path& file, std::uint64_t number, std::uint64_t other) {
  const auto bytes_of = [](const std::uint64_t& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  std::string bytes = whole(file);
  std::size_t found = 0;
  while ((found = bytes.find(bytes_of(number), found)) != std::string::npos) {
    bytes.replace(found, sizeof(other), bytes_of(other));
    found += sizeof(other);
  }
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_CASE("numbers of another file are refused, whatever it is") {
  const TemporaryFolder folder;
  std::ofstream(folder / "secret") << "the bytes of another file, as long as the numbers";
  for (const char* const file : {"secret", "none"}) {
    H5::DSetCreatPropList properties;
    properties.setExternal((folder / file).c_str(), 0, 32);
    CHECK(OneDataset(properties).error() ==
          "expected numbers in the file itself, found those of another file; write the numbers "
          "into the file");
  }
}

TEST_CASE("a virtual dataset is refused, even one that is made of itself") {
  for (const char* const source : {".", "other.h5"}) {
    const hsize_t size[] = {8};
    const H5::DataSpace space(1, size);
    H5::DSetCreatPropList properties;
    H5Pset_virtual(properties.getId(), space.getId(), source, "/x", space.getId());
    CHECK(OneDataset(properties).error() ==
          "expected numbers in the file itself, found a virtual dataset; write the numbers into "
          "the file");
  }
}

TEST_CASE("only filters that are a part of the library are taken, each once") {
  const std::string how = "; repack it: h5repack -f SHUF -f GZIP=1 OLD NEW";
  CHECK(OneDataset(with_filter(32015)).error() ==  // Zstandard, a plug-in
        "expected filters that this HDF5 library has, found filter 32015" + how);
  for (const H5Z_filter_t filter : {H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32}) {
    CHECK(OneDataset(with_filter(filter)).error() == "");
  }
  H5::DSetCreatPropList properties = chunks_of({8});
  properties.setDeflate(1);
  properties.setDeflate(1);
  CHECK(OneDataset(properties).error() == "expected every filter once, found filter 1 twice" + how);
}

TEST_CASE("a filter that somebody added to the library is none of its own") {
  const H5Z_class2_t added{.version = H5Z_CLASS_T_VERS,
                           .id = 300,
                           .encoder_present = 1,
                           .decoder_present = 1,
                           .name = "added",
                           .can_apply = nullptr,
                           .set_local = nullptr,
                           .filter = [](unsigned, size_t, const unsigned*, size_t bytes, size_t*,
                                        void**) { return bytes; }};
  H5Zregister(&added);
  CHECK_THAT(OneDataset(with_filter(300)).error(), Catch::Contains("found filter 300"));
  H5Zunregister(300);
}

TEST_CASE("the library loads no plug-in") {
  const Hdf5Lock lock;
  unsigned loaded = 1;
  H5PLget_loading_state(&loaded);
  CHECK(loaded == 0);
}

TEST_CASE("a chunk is at most what gzip can make of its bytes") {
  H5::DSetCreatPropList gzip = chunks_of({1 << 20});  // 4 MiB
  gzip.setDeflate(9);
  const OneDataset sound(gzip, {1 << 20});
  sound.dataset().write(std::vector<float>(1 << 20).data(), PredType::NATIVE_FLOAT);
  CHECK(sound.error(true) == "");

  const OneDataset bomb(gzip, {8}, {H5S_UNLIMITED});
  bomb.write_chunk({0}, "packed");
  CHECK(bomb.error() ==
        "expected numbers of at most 6192 bytes, as 6 are stored, found 4194304 bytes; mend it");
  const OneDataset plain(chunks_of({1 << 20}), {8}, {H5S_UNLIMITED});
  plain.write_chunk({0}, "plain");
  CHECK(plain.error() ==
        "expected numbers of at most 5 bytes, as 5 are stored, found 4194304 bytes; mend it");
}

/// What reading says of a list of 12,345 floats whose header declares another length.
std::string error_of_length(std::uint64_t length) {
  constexpr std::uint64_t kLength = 12345;
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  {
    const H5::H5File h5(file.string(), H5F_ACC_TRUNC);
    set_dataset(h5, "x", PredType::IEEE_F32LE, {kLength})
        .write(std::vector<float>(kLength).data(), PredType::NATIVE_FLOAT);
  }
  replace_number(file, kLength, length);
  replace_number(file, 4 * kLength, 4 * length);
  try {
    const H5::H5File h5(file.string(), H5F_ACC_RDONLY);
    GroupReader({"t.h5", "/"}, h5.openGroup("/"), "mend it").dataset("x");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("numbers beyond the end of the file are refused before there is memory for them") {
  CHECK(error_of_length(12345) == "");
  CHECK_THAT(error_of_length(std::uint64_t{1} << 40),
             Catch::StartsWith("t.h5: /x: expected numbers of at most ") &&
                 Catch::EndsWith(" found 4398046511104 bytes; mend it"));
}

TEST_CASE("HDF5 makes up numbers that were never written, where the reader refuses them") {
  CHECK(OneDataset({}).error(false) == "");
  CHECK(OneDataset({}).error(true) == "expected 8 entries, found none that were written; mend it");
  CHECK(OneDataset({}, {0}).error(true) == "");
  const OneDataset chunked(chunks_of({3}));
  CHECK(chunked.error(true) == "expected 3 chunks, found 0 that were written; mend it");
  chunked.write_chunk({3}, std::string(12, 'x'));
  CHECK(chunked.error(false) == "");
  CHECK(chunked.error(true) == "expected 3 chunks, found 1 that were written; mend it");
}

}  // namespace kvsim::traces_test::stored_size_test
