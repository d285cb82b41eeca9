#include "sim/results/scorer_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "sim/base/errors.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::scorer_file_test {

using traces_test::TemporaryFolder;

void append(std::string& bytes, std::uint32_t number, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((number >> (8U * i)) & 0xFFU);
}

std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t rest = ~0U;
  for (const char byte : bytes) {
    rest ^= static_cast<unsigned char>(byte);
    for (int i = 0; i < 8; ++i) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~rest;
}

/// As numpy.save writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118 - 1, ' ');
  std::string bytes = "\x93NUMPY";
  bytes += {'\1', '\0', static_cast<char>(118), '\0'};
  return bytes + header + '\n' + data;
}

/// A zip file of stored members, as numpy.savez writes it.
std::string zip(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes;
  std::string list;
  for (const auto& [name, contents] : members) {
    const auto at = static_cast<std::uint32_t>(bytes.size());
    const auto size = static_cast<std::uint32_t>(contents.size());
    std::string common;
    for (const std::uint32_t field : {20, 0, 0, 0, 0}) append(common, field, 2);
    for (const std::uint32_t field : {crc32(contents), size, size}) append(common, field, 4);
    append(common, static_cast<std::uint32_t>(name.size()), 2);
    append(common, 0, 2);
    bytes += "PK\3\4" + common + name + contents;
    list += std::string("PK\1\2") + '\24' + '\0' + common + std::string(10, '\0');
    append(list, at, 4);
    list += name;
  }
  const auto at = static_cast<std::uint32_t>(bytes.size());
  bytes += list + "PK\5\6" + std::string(4, '\0');
  append(bytes, static_cast<std::uint32_t>(members.size()), 2);
  append(bytes, static_cast<std::uint32_t>(members.size()), 2);
  append(bytes, static_cast<std::uint32_t>(list.size()), 4);
  append(bytes, at, 4);
  append(bytes, 0, 2);
  return bytes;
}

std::string file() {
  const std::string header =
      R"({"version": 1, "kind": "linear", "scope": "layer", "features": ["now", "age"],)"
      R"( "layers": 2, "kv_heads": 3, "head_dim": 4, "value_dim": 5, "keys": "recorded"})";
  const float weights[] = {1, 2, 3, 4};
  std::string numbers(sizeof weights, '\0');
  std::memcpy(numbers.data(), weights, sizeof weights);
  return zip({{"header.npy", npy("|u1", "(" + std::to_string(header.size()) + ",)", header)},
              {"weights.npy", npy("<f4", "(2, 2)", numbers)},
              {"bias.npy", npy("<f4", "(2,)", numbers.substr(8))}});
}

std::shared_ptr<const Scorer> read(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return read_scorer(path);
}

TEST_CASE("a file of trained scorers is read", "[results]") {
  const TemporaryFolder folder;
  const auto scorer = read(folder / "m.npz", file());
  CHECK(scorer->num_scorers() == 2);
  CHECK(scorer->weights == std::vector<float>{1, 2, 3, 4});
  CHECK(scorer->bias == std::vector<float>{3, 4});
  CHECK(scorer->index_of(1, 2) == 1);
  CHECK(scorer->sha256.size() == 64);
  CHECK_NOTHROW(check_scorer(*scorer, {2, 3, 4, 5}, "t.h5"));
  CHECK_THROWS_WITH(check_scorer(*scorer, {2, 3, 4, 6}, "t.h5"),
                    Catch::Contains("value dimension of t.h5: 6, found 5"));
}

TEST_CASE("a damaged file of scorers ends in one line", "[results]") {
  const TemporaryFolder folder;
  const std::string bytes = file();
  int refused = 0;
  const auto check = [&](const std::string& damaged) {
    try {
      const auto scorer = read(folder / "m.npz", damaged);
      CHECK(scorer->weights == std::vector<float>{1, 2, 3, 4});
      CHECK(scorer->bias == std::vector<float>{3, 4});
    } catch (const DataError& error) {
      ++refused;
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      CHECK(std::string(error.what()).find("m.npz: ") != std::string::npos);
    }
  };
  for (std::size_t size = 0; size < bytes.size(); size += 7) check(bytes.substr(0, size));
  CHECK(refused == static_cast<int>((bytes.size() + 6) / 7));
  refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    check(damaged);
  }
  // Times, versions and the like may change, the members may not.
  CHECK(refused > static_cast<int>(bytes.size()) * 4 / 5);
  CHECK_THROWS_WITH(read_scorer(folder.path()), Catch::Contains("found a folder"));
  CHECK_THROWS_WITH(read_scorer("/no/such.npz"), Catch::Contains("check the path"));
}

}  // namespace kvsim::scorer_file_test
