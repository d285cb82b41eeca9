#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "sim/base/errors.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "traces/guard/guard_limits.h"
#include "traces/trace.h"

namespace kvsim::traces_test::damaged_heap_test {

using namespace std::chrono_literals;
using H5::PredType;

constexpr GuardLimits kLimits{.cpu_time = 1s, .memory = 256 << 20, .time = 60s};
constexpr hsize_t kTokens = 3;

/// A trace of version 1, whose strings have any length: HDF5 keeps them in heaps of the file.
void write_first_version(const std::filesystem::path& file) {
  const H5::H5File h5(file.string(), H5F_ACC_TRUNC);
  const H5::Group root = h5.openGroup("/");
  for (const char* const name : {"kvtrace_version", "num_layers", "num_query_heads", "num_kv_heads",
                                 "head_dim", "value_dim"}) {
    set_integer(root, name, 1);
  }
  set_real(root, "scale", 1);
  set_text(root, "model", "small");
  h5.createGroup("/sequences");
  const H5::Group sequence = h5.createGroup("/sequences/a");
  set_integer(sequence, "num_tokens", kTokens);
  set_integer(sequence, "prompt_length", 0);
  set_text(sequence, "source", "a test");
  const std::vector<const char*> texts = {"one", "two", "three"};
  const H5::StrType any_length(PredType::C_S1, H5T_VARIABLE);
  set_dataset(h5, "/sequences/a/token_text", any_length, {kTokens}).write(texts.data(), any_length);
  h5.createGroup("/sequences/a/layers");
  h5.createGroup("/sequences/a/layers/0");
  for (const char* const name : {"query", "key", "value"}) {
    set_dataset(h5, std::string("/sequences/a/layers/0/") + name, PredType::IEEE_F32LE,
                {1, kTokens, 1})
        .write(std::vector<float>(kTokens, 1).data(), PredType::NATIVE_FLOAT);
  }
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string error_of(const std::filesystem::path& file) {
  try {
    const Trace trace(file, kLimits);
    trace.read_unit({"a", 0, 0});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a hole in a heap of strings, where HDF5 would loop for ever, ends in one line") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  write_first_version(file);
  CHECK(error_of(file) == "");
  const std::string sound = bytes_of(file);
  const std::size_t heap = sound.find("GCOL");
  REQUIRE(heap != std::string::npos);
  std::string damaged = sound;
  constexpr std::size_t kBehindFirst = 16 + 24;  // the heap's header and its first string
  damaged.replace(heap + kBehindFirst, 64, 64, '\0');
  std::ofstream(file, std::ios::binary) << damaged;
  const std::string error = error_of(file);
  CHECK_THAT(error, Catch::StartsWith(file.string() + ": expected ") &&
                        Catch::Contains("copy it again or record the file again"));
  CHECK(error.find('\n') == std::string::npos);
}

TEST_CASE("a flipped bit in a heap of strings gives a trace or one line") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  write_first_version(file);
  const std::string sound = bytes_of(file);
  const std::size_t heap = sound.find("GCOL");
  for (std::size_t byte = 24; byte < 32; ++byte) {  // of the size of the first string
    std::string damaged = sound;
    damaged[heap + byte] = static_cast<char>(damaged[heap + byte] ^ '\x80');
    std::ofstream(file, std::ios::binary) << damaged;
    const std::string error = error_of(file);
    CAPTURE(byte, error);
    CHECK((error.empty() || error.starts_with(file.string() + ": ")));
  }
}

}  // namespace kvsim::traces_test::damaged_heap_test
