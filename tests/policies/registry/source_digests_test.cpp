#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

#include "policies/registry/source_digest.h"
#include "policies/registry/spec.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::source_digests_test {

using traces_test::TemporaryFolder;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// What a build with these sources takes for the digests.
std::map<std::string, std::string> digests_of(const TemporaryFolder& sources) {
  const std::filesystem::path out = sources / "digests.txt";
  const std::string command =
      fmt::format("cmake -D ROOT={} -D OUTPUT={} -P {}/policies/registry/source_digests.cmake",
                  sources.path().string(), out.string(), KVSIM_SOURCE_DIR);
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(concurrency-mt-unsafe)
  std::ifstream in(out);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  static const std::regex kRow(R"re(\{"([^"]+)", "([0-9a-f]{64})"\})re");
  std::map<std::string, std::string> digests;
  for (std::sregex_iterator row(text.begin(), text.end(), kRow), end; row != end; ++row) {
    digests[(*row)[1]] = (*row)[2];
  }
  return digests;
}

TEST_CASE("the digest of a policy follows its source and all that it includes", "[registry]") {
  const TemporaryFolder sources;
  write(sources / "policies/one.cpp", "#include \"policies/parts/draw.h\"\nint one = 1;\n");
  write(sources / "policies/two.cpp", "int two = 2;\n");
  write(sources / "policies/parts/draw.h", "#include \"sim/base/bits.h\"\nint draw();\n");
  write(sources / "policies/parts/draw.cpp", "int draw() { return 1; }\n");
  write(sources / "sim/base/bits.h", "int bits = 8;\n");
  write(sources / "oracle/seer.cpp", "int seer = 3;\n");
  auto before = digests_of(sources);
  CHECK(before.size() == 3);
  const auto changed = [&] {
    std::string names;
    const auto after = digests_of(sources);
    for (const auto& [file, digest] : after) names += before[file] == digest ? "" : file + " ";
    before = after;
    return names;
  };
  CHECK(changed().empty());
  write(sources / "policies/two.cpp", "int two = 22;\n");
  CHECK(changed() == "policies/two.cpp ");
  write(sources / "sim/base/bits.h", "int bits = 16;\n");
  CHECK(changed() == "policies/one.cpp ");
  write(sources / "policies/parts/draw.cpp", "int draw() { return 2; }\n");
  CHECK(changed() == "policies/one.cpp ");
  write(sources / "oracle/seer.cpp", "int seer = 33;\n");
  CHECK(changed() == "oracle/seer.cpp ");
  write(sources / "policies/two.cpp", "// The second.\nint two = 22;\n  // No more.\n");
  CHECK(changed().empty());
}

TEST_CASE("every policy and combinator has the digest of its source", "[registry]") {
  for (const PolicyInfo& policy : policies()) CHECK(policy.code.size() >= 64);
  for (const CombinatorInfo& combinator : combinators()) CHECK(combinator.code.size() == 64);
  CHECK(Spec("h2o").code() == source_digest("policies/h2o.cpp"));
  CHECK_THROWS_AS(source_digest("policies/none.cpp"), std::logic_error);
}

TEST_CASE("the code of a spec is that of all its parts", "[registry]") {
  const std::string alone = Spec("h2o").code();
  CHECK(Spec("h2o:recent=0").code() == alone);
  CHECK(Spec("h2o@uniform").code() == alone);
  CHECK(Spec("h2o+protect").code() == alone + ' ' + source_digest("policies/protect.cpp"));
  CHECK(Spec("h2o@pyramid").code() == alone + ' ' + source_digest("sim/sweep/allocate.cpp"));
  CHECK(Spec("tova").code() != alone);
}

}  // namespace kvsim::source_digests_test
