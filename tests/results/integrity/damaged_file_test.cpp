// A result file with a flipped bit or without its end is refused, or has equal numbers.

#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "sim/base/errors.h"
#include "sim/results/integrity/check_results.h"
#include "tests/results/result_files.h"
#include "tests/support/unsynced_files.h"

namespace kvsim::results_test::damaged_file_test {

using test_support::UnsyncedFiles;
using traces_test::TemporaryFolder;

std::filesystem::path small_file(const TemporaryFolder& folder) {
  const auto file = folder / "r.sqlite";
  {
    ResultStore store(file, Access::write);
    store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
    Result oracle = row("optimal:recent=0,cost=mass,weight=uniform", 0.75);
    store.add({row("window"), row("h2o", 0.625), oracle}, {{oracle, {.loss = 0.25}}});
  }
  edit(file, "PRAGMA page_size = 512; VACUUM");
  return file;
}

/// What the tables and views of a sound file hold; empty if a check refuses it.
std::string numbers(const std::filesystem::path& file) {
  std::ostringstream out;
  try {
    check_results(file);
    for (const char* name : {"replay", "certificate", "run", "regret"}) {
      write_json(out, table(file, name));
    }
  } catch (const DataError&) {
    return "";
  }
  return out.str();
}

void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

TEST_CASE("flipped bits of a result file are found, or change no number", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = small_file(folder);
  const std::string sound = bytes(file);
  const std::string expected = numbers(file);
  REQUIRE_FALSE(expected.empty());
  std::mt19937 random(7);
  int refused = 0;
  int wrong = 0;
  for (std::size_t place = 0; place < sound.size(); place += 1 + random() % 24) {
    std::string damaged = sound;
    damaged[place] = static_cast<char>(damaged[place] ^ (1 << random() % 8));
    write_bytes(file, damaged);
    const std::string found = numbers(file);
    refused += found.empty() ? 1 : 0;
    const bool is_wrong = !found.empty() && found != expected;
    if (is_wrong) WARN("byte " << place);
    wrong += is_wrong ? 1 : 0;
    std::filesystem::remove(folder / "r.sqlite-wal");
    std::filesystem::remove(folder / "r.sqlite-shm");
  }
  CHECK(wrong == 0);
  CHECK(refused > 100);
}

TEST_CASE("a result file without its end is refused", "[integrity]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto file = small_file(folder);
  const std::string sound = bytes(file);
  for (std::size_t size = 1; size < sound.size(); size += 499) {
    write_bytes(file, sound.substr(0, size));
    INFO(size << " of " << sound.size());
    CHECK(numbers(file).empty());
  }
}

}  // namespace kvsim::results_test::damaged_file_test
