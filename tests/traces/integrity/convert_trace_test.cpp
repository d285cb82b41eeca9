#include "traces/integrity/convert_trace.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"
#include "traces/integrity/check_trace.h"

namespace kvsim::traces_test::convert_trace_test {

using Catch::Contains;
using H5::PredType;

struct Folder : TemporaryFolder {
  std::filesystem::path from = *this / "from.h5";
  std::filesystem::path to = *this / "to.h5";
};

LeftOut convert(const Folder& folder) { return convert_trace(Trace(folder.from), folder.to); }

TEST_CASE("a trace of version 1 is converted to what version 2 would have been", "[convert]") {
  const Folder folder;
  write_full_trace(folder.from);
  const std::string id = Trace(folder.from).id();
  make_version_1(folder.from, "earlier");
  CHECK(convert(folder).empty());
  const Trace converted(folder.to);
  CHECK(converted.header().version == 2);
  CHECK(converted.header().trace_id_v1 == "earlier");
  CHECK(converted.header().model == "small");
  CHECK(converted.header().recorder == "a test");
  CHECK(converted.header().dtype == "float16");
  // Of the manifest, with all shapes, types, attributes and digests.
  CHECK(converted.id() == id);
  CHECK(check_trace(converted).datasets > 15);
}

TEST_CASE("a trace of version 2 keeps its trace_id and that of version 1", "[convert]") {
  const Folder folder;
  write_full_trace(folder.from);
  make_version_1(folder.from, "earlier");
  convert(folder);
  const Trace converted(folder.to);
  CHECK(convert_trace(converted, folder / "again.h5").empty());
  CHECK(Trace(folder / "again.h5").id() == converted.id());
  CHECK(Trace(folder / "again.h5").header().trace_id_v1 == "earlier");
}

TEST_CASE("a trace without trace_id is known by the digest of its file", "[convert]") {
  const Folder folder;
  write_small_trace(folder.from, small_header());
  make_version_1(folder.from);
  const std::string of_file = Trace(folder.from).id();
  convert(folder);
  CHECK(Trace(folder.to).header().trace_id_v1 == of_file);
}

TEST_CASE("numbers of any order, layout and type keep value and type", "[convert]") {
  const Folder folder;
  const TraceHeader header = small_header();
  write_small_trace(folder.from, header);
  make_version_1(folder.from);
  const Matrix key = numbered_layer(header, kSmallTokens, 0).key[0] / 3;
  std::vector<float> numbers(key.data(), key.data() + key.size());
  numbers.insert(numbers.end(), numbers.begin(), numbers.end());
  {
    const H5::H5File file = edit(folder.from);
    set_dataset(file, kLayer + "/key", PredType::IEEE_F32BE, {2, kSmallTokens, 4})
        .write(numbers.data(), PredType::NATIVE_FLOAT);
    const std::vector<std::int32_t> ids{1, -2, 3, 4, 1 << 30};
    set_dataset(file, "/sequences/a/token_ids", PredType::STD_I32BE, {kSmallTokens})
        .write(ids.data(), PredType::NATIVE_INT32);
  }
  CHECK(convert(folder).empty());
  const Trace converted(folder.to);
  const Unit unit = converted.read_unit({"a", 0, 1});
  CHECK(unit.key == key);
  CHECK(unit.key_bytes == 4);
  CHECK(unit.value_bytes == 2);
  CHECK(unit.token_ids == std::vector<std::int32_t>{1, -2, 3, 4, 1 << 30});
}

TEST_CASE("what is missing stays missing", "[convert]") {
  const Folder folder;
  const TraceHeader header = small_header();
  write_small_trace(folder.from, header);
  make_version_1(folder.from);
  const Matrix key = numbered_layer(header, kSmallTokens, 0).key[1];
  {
    const H5::H5File file = edit(folder.from);
    file.unlink("/sequences/a/layers/1");
    H5::DSetCreatPropList chunks;
    const std::array<hsize_t, 3> chunk{1, kSmallTokens, 4};
    chunks.setChunk(3, chunk.data());
    const H5::DataSet keys =
        set_dataset(file, kLayer + "/key", PredType::IEEE_F32LE, {2, kSmallTokens, 4}, chunks);
    const H5::DataSpace space = keys.getSpace();
    const std::array<hsize_t, 3> start{1, 0, 0};
    space.selectHyperslab(H5S_SELECT_SET, chunk.data(), start.data());
    keys.write(key.data(), PredType::NATIVE_FLOAT, H5::DataSpace(3, chunk.data()), space);
  }
  convert(folder);
  const Trace converted(folder.to);
  REQUIRE(converted.sequences().front().layers.size() == 1);
  CHECK(converted.sequences().front().layers.front().kv_heads == std::vector<int>{1});
  CHECK(converted.read_unit({"a", 0, 1}).key == key);
}

TEST_CASE("what the format does not know is left out and named", "[convert]") {
  const Folder folder;
  write_small_trace(folder.from, small_header());
  {
    const H5::H5File file = edit(folder.from);
    set_dataset(file, "/notes", PredType::NATIVE_INT, {3});
    set_dataset(file, kLayer + "/more", PredType::NATIVE_INT, {3});
    set_integer(file.openGroup("/sequences/a"), "weight", 3);
  }
  CHECK(convert(folder) ==
        LeftOut{"/notes", "/sequences/a/layers/0/more", "/sequences/a: attribute weight"});
  CHECK(error_of_reading(folder.to).empty());
}

TEST_CASE("strings that are not UTF-8 are an error that names their place", "[convert]") {
  const Folder folder;
  write_small_trace(folder.from, small_header());
  make_version_1(folder.from);
  {
    const H5::StrType type(PredType::C_S1, 2);
    set_dataset(edit(folder.from), "/sequences/a/token_text", type, {kSmallTokens})
        .write("a\0\xff\0b\0c\0d\0", type);
  }
  CHECK_THROWS_WITH(convert(folder), Contains("/sequences/a/token_text: expected UTF-8 at [1]"));
  CHECK_FALSE(std::filesystem::exists(folder.to));
}

TEST_CASE("a conversion that is ended leaves no file, and one that stands stays", "[convert]") {
  const Folder folder;
  write_small_trace(folder.from, small_header());
  write_full_trace(folder.to);
  const std::string before = Trace(folder.to).id();
  std::size_t calls = 0;
  const auto end_in_the_middle = [&](std::size_t done, std::size_t total) {
    CHECK(done == ++calls);
    if (2 * done >= total) throw std::runtime_error("enough");
  };
  CHECK_THROWS_WITH(convert_trace(Trace(folder.from), folder.to, end_in_the_middle), "enough");
  CHECK(calls > 2);
  CHECK(Trace(folder.to).id() == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

}  // namespace kvsim::traces_test::convert_trace_test
