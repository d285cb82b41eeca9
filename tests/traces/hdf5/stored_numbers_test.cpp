#include "traces/hdf5/stored_numbers.h"

#include <Eigen/Core>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kvsim::stored_numbers_test {

/// The bytes of the words, as a file with this format has them.
template <class Word>
std::vector<unsigned char> stored(const std::vector<Word>& words, bool big_endian, bool shuffled) {
  const std::size_t count = words.size();
  std::vector<unsigned char> bytes(count * sizeof(Word));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t byte = 0; byte < sizeof(Word); ++byte) {
      const std::size_t place = big_endian ? sizeof(Word) - 1 - byte : byte;
      bytes[shuffled ? byte * count + i : i * sizeof(Word) + byte] =
          static_cast<unsigned char>(words[i] >> (8 * place));
    }
  }
  return bytes;
}

template <class Word>
std::vector<float> read_back(const std::vector<Word>& words, std::size_t first,
                             std::size_t length) {
  const bool big_endian = GENERATE(false, true);
  const bool shuffled = GENERATE(false, true);
  CAPTURE(big_endian, shuffled);
  const std::vector<unsigned char> bytes = stored(words, big_endian, shuffled);
  std::vector<float> floats(length);
  StoredNumbers{bytes.data(), words.size(), {sizeof(Word), big_endian}, shuffled}.read(
      first, length, floats.data());
  return floats;
}

TEST_CASE("every float16 is read to the bit") {
  std::vector<std::uint16_t> words(1 << 16);
  std::iota(words.begin(), words.end(), std::uint16_t{0});
  const std::vector<float> floats = read_back(words, 0, words.size());
  int differing = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto expected = static_cast<float>(std::bit_cast<Eigen::half>(words[i]));
    const bool both_nan = std::isnan(expected) && std::isnan(floats[i]);
    differing += !both_nan &&
                 std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(floats[i]);
  }
  CHECK(differing == 0);
}

TEST_CASE("any part of stored numbers is read") {
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 5000; ++i) words.push_back(std::bit_cast<std::uint32_t>(0.37F * float(i)));
  const std::vector<float> floats = read_back(words, 17, 4321);
  int differing = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    differing += floats[i] != std::bit_cast<float>(words[17 + i]);
  }
  CHECK(differing == 0);
}

}  // namespace kvsim::stored_numbers_test
