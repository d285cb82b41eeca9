#include <array>
#include <catch2/catch.hpp>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::traces_test::encodings_test {

using H5::PredType;

const std::string kKey = "/sequences/a/layers/0/key";

H5::FloatType half(H5T_order_t order) {
  H5::FloatType type(PredType::IEEE_F32LE);
  type.setFields(15, 10, 5, 0, 10);
  type.setSize(2);
  type.setEbias(15);
  type.setOrder(order);
  return type;
}

H5::DSetCreatPropList chunked(const std::vector<hsize_t>& chunk) {
  H5::DSetCreatPropList properties;
  properties.setChunk(3, chunk.data());
  return properties;
}

H5::DSetCreatPropList compact() {
  H5::DSetCreatPropList properties;
  properties.setLayout(H5D_COMPACT);
  return properties;
}

H5::DSetCreatPropList packed() {
  H5::DSetCreatPropList properties = chunked({1, 3, 4});
  properties.setShuffle();
  properties.setDeflate(9);
  properties.setFletcher32();
  return properties;
}

/// Stores the keys of layer 0 in another way and compares what is read with what was written.
void check_encoding(const H5::DataType& type, const H5::DSetCreatPropList& properties) {
  const TemporaryFolder folder;
  const TraceHeader header = small_header();
  write_small_trace(folder / "t.h5", header);
  const std::string id = Trace(folder / "t.h5").id();  // of float16
  const std::vector<Matrix> keys = numbered_layer(header, kSmallTokens, 0).key;
  std::vector<float> numbers;
  for (const Matrix& key : keys) numbers.insert(numbers.end(), key.data(), key.data() + key.size());
  set_dataset(edit(folder / "t.h5"), kKey, type, {2, kSmallTokens, 4}, properties)
      .write(numbers.data(), PredType::NATIVE_FLOAT);
  seal_again(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  CHECK((trace.id() == id) == (type.getSize() == 2));
  for (int head = 0; head < header.shape.num_kv_heads; ++head) {
    const Unit unit = trace.read_unit({"a", 0, head});
    CHECK(unit.key == keys[head]);
    CHECK(unit.key_bytes == static_cast<int>(type.getSize()));
    CHECK(unit.value_bytes == 2);
  }
}

TEST_CASE("every layout and filter is read") {
  check_encoding(PredType::IEEE_F32LE, {});
  check_encoding(PredType::IEEE_F32LE, compact());
  check_encoding(PredType::IEEE_F32LE, packed());
  check_encoding(half(H5T_ORDER_LE), packed());
  check_encoding(PredType::IEEE_F32LE, chunked({2, kSmallTokens, 4}));
  check_encoding(half(H5T_ORDER_LE), chunked({2, 2, 3}));
  check_encoding(half(H5T_ORDER_LE), chunked({1, 1, 1}));
}

TEST_CASE("either byte order is read") {
  check_encoding(PredType::IEEE_F32BE, {});
  check_encoding(half(H5T_ORDER_BE), {});
  check_encoding(half(H5T_ORDER_BE), packed());
}

TEST_CASE("attributes of other widths are read") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  {
    const H5::H5File file = edit(folder / "t.h5");
    const H5::Group root = file.openGroup("/");
    set_attribute(root, "kvtrace_version", PredType::STD_U8BE, std::uint8_t{2});
    set_attribute(root, "num_layers", PredType::NATIVE_INT16, std::int16_t{2});
    set_attribute(root, "head_dim", PredType::NATIVE_UINT64, std::uint64_t{4});
    set_attribute(root, "scale", PredType::NATIVE_FLOAT, 0.25f);
    set_attribute(root, "logit_softcap", PredType::NATIVE_INT, 30);
  }
  seal_again(folder / "t.h5");
  const TraceHeader header = Trace(folder / "t.h5").header();
  CHECK(header.num_layers == 2);
  CHECK(header.shape.head_dim == 4);
  CHECK(header.shape.scale == 0.25);
  CHECK(header.logit_softcap == 30.0);
}

TEST_CASE("in version 1 strings of fixed and variable length are read") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  make_version_1(folder / "t.h5");
  {
    const H5::H5File file = edit(folder / "t.h5");
    const H5::Group root = file.openGroup("/");
    const auto set_fixed = [&](const std::string& name, H5T_str_t padding,
                               const std::string& text) {
      H5::StrType type(PredType::C_S1, 8);
      type.setStrpad(padding);
      std::array<char, 8> characters{};
      text.copy(characters.data(), characters.size());
      set_attribute(root, name, type, characters);
    };
    set_fixed("model", H5T_STR_NULLTERM, "null");
    set_fixed("recorder", H5T_STR_SPACEPAD, "a space ");
    set_fixed("trace_id", H5T_STR_NULLPAD, "allofit!");
    H5::StrType utf8(PredType::C_S1, H5T_VARIABLE);
    utf8.setCset(H5T_CSET_UTF8);
    const char* const words = "wörter";
    set_attribute(file.openGroup("/sequences/a"), "source", utf8, words);
    H5::StrType never_written(PredType::C_S1, H5T_VARIABLE);
    root.removeAttr("dtype");
    root.createAttribute("dtype", never_written, H5::DataSpace());
  }
  const Trace trace(folder / "t.h5");
  CHECK(trace.header().model == "null");
  CHECK(trace.header().recorder == "a space");
  CHECK(trace.id() == "allofit!");
  CHECK(trace.sequences().front().source == "wörter");
  CHECK(trace.header().dtype.empty());
}

}  // namespace kvsim::traces_test::encodings_test
