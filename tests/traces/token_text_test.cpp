#include <catch2/catch.hpp>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"

namespace kvsim::traces_test::token_text_test {

using Catch::Matchers::Contains;
using H5::PredType;

const char* const kText = "/sequences/a/token_text";
const char* const kOffsets = "/sequences/a/token_text_offsets";
const std::vector<std::string> kTokens = {"<s>", "\xe2\x96\x81na\xc3\xafve", "", ".", " tree"};

std::vector<std::string> text_of(const std::filesystem::path& file) {
  return Trace(file).read_unit({"a", 0, 0}).token_text;
}

void write_text_trace(const std::filesystem::path& file) {
  const TraceHeader header = small_header();
  TraceWriter writer(file, header, ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 2, "", {});
  writer.write_token_text(kTokens);
  const LayerNumbers numbers = numbered_layer(header, kSmallTokens, 0);
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
  writer.close();
}

TEST_CASE("token texts are read as they were written", "[traces]") {
  const TemporaryFolder folder;
  write_text_trace(folder / "t.h5");
  CHECK(text_of(folder / "t.h5") == kTokens);
  CHECK(Trace(folder / "t.h5").sequences().front().has_token_text);
  write_small_trace(folder / "none.h5", small_header());
  CHECK(text_of(folder / "none.h5").empty());
}

TEST_CASE("in version 1 token texts are read whether stored with fixed or variable length") {
  const TemporaryFolder folder;
  write_text_trace(folder / "t.h5");
  make_version_1(folder / "t.h5");
  SECTION("variable") {}
  SECTION("fixed") {
    constexpr std::size_t kWidth = 16;
    std::string texts;
    for (std::string token : kTokens) {
      token.resize(kWidth);
      texts += token;
    }
    const H5::StrType type(PredType::C_S1, kWidth);
    set_dataset(edit(folder / "t.h5"), kText, type, {kTokens.size()}).write(texts.data(), type);
  }
  CHECK(text_of(folder / "t.h5") == kTokens);
}

TEST_CASE("token texts that do not fit their bytes are refused") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  write_text_trace(file);
  const auto write_offsets = [&](const std::vector<std::int64_t>& offsets) {
    set_dataset(edit(file), kOffsets, PredType::STD_I64LE, {offsets.size()})
        .write(offsets.data(), PredType::NATIVE_INT64);
    seal_again(file);
  };
  std::string expected;
  SECTION("too many") {
    write_offsets({0, 1, 2, 3, 4, 5, 18});
    expected = "/token_text_offsets: expected shape [6], found [7]";
  }
  SECTION("descending") {
    write_offsets({0, 3, 2, 12, 13, 18});
    expected = "/token_text_offsets: expected at [2] a number in 3..18, found 2";
  }
  SECTION("beyond the end") {
    write_offsets({0, 3, 40, 12, 13, 18});
    expected = "/token_text_offsets: expected at [2] a number in 3..18, found 40";
  }
  SECTION("not all bytes") {
    write_offsets({0, 3, 12, 12, 13, 17});
    expected = "/token_text_offsets: expected offsets from 0 to 18, found 0 to 17";
  }
  SECTION("within a character") {
    write_offsets({0, 4, 12, 12, 13, 18});
    expected = "/token_text: expected UTF-8 at [0], found other bytes";
  }
  SECTION("other bytes than those recorded") {
    set_number(edit(file), kText, {0}, '(');
    expected = "/token_text: expected digest ";
  }
  SECTION("another type") {
    set_dataset(edit(file), kOffsets, PredType::STD_I32LE, {6});
    expected = "/token_text_offsets: expected int64, found int32";
  }
  CHECK_THAT(error_of_reading(file), Contains(expected));
}

TEST_CASE("texts that are not UTF-8 are not written") {
  TraceWriter writer(small_header(), ElementType::float16);
  writer.begin_sequence("a", 1, 0, "", {});
  CHECK_THROWS_WITH(writer.write_token_text({"\xff"}), Contains("expected UTF-8 at [0]"));
  CHECK_THROWS_WITH(writer.write_token_text({"a", "b"}), Contains("expected 1 entries"));
  CHECK_THROWS_WITH(writer.begin_sequence("\xff", 1, 0, "", {}), Contains("expected UTF-8"));
}

}  // namespace kvsim::traces_test::token_text_test
