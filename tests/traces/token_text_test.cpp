#include <catch2/catch.hpp>

#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::traces_test {
namespace {

const char* const kText = "/sequences/a/token_text";
const std::vector<std::string> kTokens = {"<s>", "\xe2\x96\x81na\xc3\xafve", "", ".", " tree"};

std::vector<std::string> text_of(const std::filesystem::path& file) {
  return Trace(file).read_unit({"a", 0, 0}).token_text;
}

TEST_CASE("token texts are read whether stored with fixed or variable length", "[traces]") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  CHECK(text_of(folder / "t.h5").empty());
  const hsize_t count = kTokens.size();
  SECTION("variable") {
    std::vector<const char*> texts;
    for (const std::string& token : kTokens) texts.push_back(token.c_str());
    const H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
    edit(folder / "t.h5")
        .createDataSet(kText, type, H5::DataSpace(1, &count))
        .write(texts.data(), type);
  }
  SECTION("fixed") {
    constexpr std::size_t kWidth = 16;
    std::string texts;
    for (std::string token : kTokens) {
      token.resize(kWidth);
      texts += token;
    }
    const H5::StrType type(H5::PredType::C_S1, kWidth);
    edit(folder / "t.h5")
        .createDataSet(kText, type, H5::DataSpace(1, &count))
        .write(texts.data(), type);
  }
  CHECK(text_of(folder / "t.h5") == kTokens);
}

}  // namespace
}  // namespace kvsim::traces_test
