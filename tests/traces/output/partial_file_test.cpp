#include "traces/output/partial_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"
#include "traces/output/partial_name.h"

namespace kvsim::traces_test::partial_file_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Leaves the partial file of a process that has ended. Returns its path.
fs::path left_behind(const fs::path& target) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t process = fork();
  if (process == 0) {
    const PartialFile partial(target);
    const std::string path = partial.path();
    _exit(::write(pipe[1], path.data(), path.size()) > 0 ? 0 : 1);
  }
  char path[4096] = {};
  REQUIRE(::read(pipe[0], path, sizeof path - 1) > 0);
  waitpid(process, nullptr, 0);
  close(pipe[0]);
  close(pipe[1]);
  return path;
}

TEST_CASE("two writers of a file have one each, and the last to finish wins") {
  const TemporaryFolder folder;
  const fs::path target = folder / "t";
  PartialFile first(target);
  PartialFile second(target);
  REQUIRE(first.path() != second.path());
  write(first.path(), "first");
  write(second.path(), "second");
  second.commit();
  CHECK(read(target) == "second");
  CHECK(fs::exists(first.path()));
  first.commit();
  CHECK(read(target) == "first");
  CHECK(folder.num_partial("t") == 0);
}

TEST_CASE("a file that is not finished is removed, and no other one") {
  const TemporaryFolder folder;
  write(folder / "t", "earlier");
  const PartialFile other(folder / "t");
  { const PartialFile abandoned(folder / "t"); }
  CHECK(fs::exists(other.path()));
  CHECK(folder.num_partial("t") == 1);
  CHECK(read(folder / "t") == "earlier");
}

TEST_CASE("what an ended process left is removed by the next writer of the same file") {
  const TemporaryFolder folder;
  const fs::path left = left_behind(folder / "t");
  const fs::path of_another_file = left_behind(folder / "t.h5");
  REQUIRE(fs::exists(left));
  REQUIRE(fs::exists(of_another_file));
  const PartialFile partial(folder / "t");
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(of_another_file));
}

TEST_CASE("what may belong to a living process stays") {
  const TemporaryFolder folder;
  const std::string own = own_partial_prefix(folder / "t") + "aaaaaa";
  const std::string ended = std::to_string(1 << 30);  // more than a process id may be
  const std::vector<fs::path> stay = {own, folder / ("t.partial-00000000-" + ended + "-aaaaaa"),
                                      folder / "t.partial", folder / "t.partial-notes"};
  for (const fs::path& file : stay) write(file, "");
  const PartialFile partial(folder / "t");
  for (const fs::path& file : stay) CHECK(fs::exists(file));
}

TEST_CASE("a file keeps the permissions of the one that it replaces") {
  const TemporaryFolder folder;
  write(folder / "t", "earlier");
  REQUIRE(chmod((folder / "t").c_str(), 0640) == 0);
  PartialFile partial(folder / "t");
  partial.commit();
  struct stat found {};
  REQUIRE(stat((folder / "t").c_str(), &found) == 0);
  CHECK((found.st_mode & 0777U) == 0640);
}

TEST_CASE("room is set aside without a change of the file, and given back") {
  const TemporaryFolder folder;
  PartialFile partial(folder / "t");
  write(partial.path(), "text");
  partial.reserve(1 << 20);
  CHECK(read(partial.path()) == "text");
  partial.commit();
  struct stat found {};
  REQUIRE(stat((folder / "t").c_str(), &found) == 0);
  CHECK(found.st_blocks * 512 < 1 << 20);
}

TEST_CASE("a limit on the size of files is known before it is met") {
  const TemporaryFolder folder;
  const PartialFile partial(folder / "t");
  write(partial.path(), std::string(2048, 'x'));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  CHECK_NOTHROW(partial.reserve(2048));
  CHECK_THROWS_WITH(partial.reserve(2049), Contains("t: cannot be written: files may have 4 KiB"));
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK_NOTHROW(partial.reserve(2049));
}

TEST_CASE("a file that cannot be renamed is an error, and is removed") {
  const TemporaryFolder folder;
  {
    PartialFile partial(folder / "t");
    fs::create_directories(folder / "t" / "in the way");
    CHECK_THROWS_WITH(partial.commit(), Contains("t: cannot be written: Is a directory"));
  }
  CHECK(folder.num_partial("t") == 0);
}

}  // namespace kvsim::traces_test::partial_file_test
