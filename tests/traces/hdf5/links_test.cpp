#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"

namespace kvsim::traces_test::links_test {

const std::string kKey = "/sequences/a/layers/0/key";

/// What `change` makes of a sound trace, whose key in layer 0 is gone. Version 1 has no manifest
/// that would say so first.
std::string error_of_key(const TemporaryFolder& folder,
                         const std::function<void(const H5::H5File&)>& change) {
  const std::filesystem::path file = folder / "t.h5";
  write_small_trace(file, small_header());
  make_version_1(file);
  {
    const H5::H5File h5 = edit(file);
    h5.unlink(kKey);
    change(h5);
  }
  const std::string error = error_of_reading(file);
  CHECK((error.empty() || error.starts_with(file.string())));
  return error;
}

TEST_CASE("a link to another file is refused, even to a pipe that nobody writes to") {
  const TemporaryFolder folder;
  mkfifo((folder / "pipe").c_str(), 0600);
  for (const char* const target : {"pipe", "t.h5", "no such file"}) {
    CHECK_THAT(
        error_of_key(folder,
                     [&](const H5::H5File& h5) {
                       H5Lcreate_external((folder / target).c_str(), "/x", h5.getId(), kKey.c_str(),
                                          H5P_DEFAULT, H5P_DEFAULT);
                     }),
        Catch::Contains(kKey + ": expected a group or a dataset of this file, found an external "
                               "link; replace it by what it leads to"));
  }
}

TEST_CASE("a soft link is refused, wherever it leads") {
  const TemporaryFolder folder;
  for (const char* const target : {"/sequences/a/layers/1/key", "/nowhere"}) {
    CHECK_THAT(error_of_key(folder,
                            [&](const H5::H5File& h5) {
                              H5Lcreate_soft(target, h5.getId(), kKey.c_str(), H5P_DEFAULT,
                                             H5P_DEFAULT);
                            }),
               Catch::Contains(kKey) && Catch::Contains("found a soft link"));
  }
}

TEST_CASE("a link of a kind of its own is refused") {
  const TemporaryFolder folder;
  constexpr auto kOwnKind = static_cast<H5L_type_t>(H5L_TYPE_UD_MIN + 10);
  const H5L_class_t kind{.version = H5L_LINK_CLASS_T_VERS,
                         .id = kOwnKind,
                         .comment = "own",
                         .trav_func = [](auto...) -> hid_t { return -1; }};
  H5Lregister(&kind);
  const std::string error = error_of_key(folder, [&](const H5::H5File& h5) {
    H5Lcreate_ud(h5.getId(), kKey.c_str(), kOwnKind, "", 0, H5P_DEFAULT, H5P_DEFAULT);
  });
  H5Lunregister(kOwnKind);
  CHECK_THAT(error, Catch::Contains("found a link of another kind"));
}

TEST_CASE("a hard link stands for what it leads to") {
  const TemporaryFolder folder;
  CHECK(error_of_key(folder, [&](const H5::H5File& h5) {
          H5Lcreate_hard(h5.getId(), "/sequences/a/layers/1/key", h5.getId(), kKey.c_str(),
                         H5P_DEFAULT, H5P_DEFAULT);
        }) == "");
}

TEST_CASE("a group that holds itself is not followed for ever") {
  const TemporaryFolder folder;
  for (const std::string group : {"/sequences", "/sequences/a", "/sequences/a/layers"}) {
    CHECK_THAT(error_of_key(folder,
                            [&](const H5::H5File& h5) {
                              h5.unlink("/sequences/a/layers/0");
                              H5Lcreate_hard(h5.getId(), group.c_str(), h5.getId(),
                                             "/sequences/a/layers/0", H5P_DEFAULT, H5P_DEFAULT);
                            }),
               Catch::Contains("/sequences/a/layers/0/query: expected a dataset, found nothing"));
  }
}

TEST_CASE("a pipe or a device is no trace, and is not opened") {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  mkfifo(pipe.c_str(), 0600);
  CHECK(error_of_reading(pipe) ==
        pipe.string() + ": expected a trace file, found something that is no regular file");
  const std::filesystem::path link = folder / "link";
  std::filesystem::create_symlink(pipe, link);
  CHECK(error_of_reading(link) ==
        link.string() + ": expected a trace file, found something that is no regular file");
  CHECK(error_of_reading("/dev/zero") ==
        "/dev/zero: expected a trace file, found something that is no regular file");
}

}  // namespace kvsim::traces_test::links_test
