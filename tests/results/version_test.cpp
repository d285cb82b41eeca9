#include "sim/results/version.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/temporary_folder.h"

namespace kvsim::version_test {

using Catch::Matches;
using traces_test::TemporaryFolder;

void shell(const std::string& command) {
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(concurrency-mt-unsafe)
}

/// The version of a program that is built from `folder`.
std::string version_of(const TemporaryFolder& folder) {
  const std::filesystem::path out = folder / "version.cpp";
  shell(
      fmt::format("cmake -D ROOT={} -D RELEASE=1.2.3 -D OUTPUT={} -P "
                  "{}/sim/results/version.cmake",
                  folder.path().string(), out.string(), KVSIM_SOURCE_DIR));
  std::ifstream in(out);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t begin = text.find("return \"") + 8;
  return text.substr(begin, text.find('"', begin) - begin);
}

TEST_CASE("the version names the revision, and whether files differ from it", "[version]") {
  const TemporaryFolder folder;
  CHECK(version_of(folder) == "1.2.3");  // sources without their history
  const std::string git =
      fmt::format("git -C {} -c user.name=A -c user.email=a@b.invalid -c init.defaultBranch=main ",
                  folder.path().string());
  std::ofstream(folder / "source") << "one";
  shell(git + "init -q && " + git + "add source && " + git + "commit -q -m one");
  const std::string first = version_of(folder);
  CHECK_THAT(first, Matches("1\\.2\\.3\\+g[0-9a-f]{7}"));
  std::ofstream(folder / "source") << "two";
  CHECK(version_of(folder) == first + ".dirty");
  shell(git + "commit -q -a -m two");
  const std::string second = version_of(folder);
  CHECK_THAT(second, Matches("1\\.2\\.3\\+g[0-9a-f]{7}"));
  CHECK(second != first);
}

TEST_CASE("the version of this build begins with the release", "[version]") {
  CHECK_THAT(version(), Matches("[0-9]+\\.[0-9]+\\.[0-9]+(\\+g[0-9a-f]{7,}(\\.dirty)?)?"));
}

}  // namespace kvsim::version_test
