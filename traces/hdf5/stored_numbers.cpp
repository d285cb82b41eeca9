#include "traces/hdf5/stored_numbers.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace kvsim {
namespace {

static_assert(std::endian::native == std::endian::little, "words are put together for that order");

constexpr std::size_t kAtOnce = 2048;

// Without branches, so that the compiler uses vectors: all three cases are computed.
float float_of_half(std::uint16_t half) {
  constexpr std::uint32_t kLargestExponent = 0x7c00U << 13;  // of infinities and NaN
  constexpr std::uint32_t kOtherBias = (127U - 15U) << 23;
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  const std::uint32_t exponent = magnitude & kLargestExponent;
  const std::uint32_t normal = magnitude + kOtherBias;
  const std::uint32_t not_finite = normal + kOtherBias;
  // A subnormal is a multiple of 2^-24: its bits become the fraction of a number that begins at
  // 2^-14, which is then subtracted.
  constexpr std::uint32_t kLeastNormal = (127U - 14U) << 23;
  const auto subnormal = std::bit_cast<std::uint32_t>(
      std::bit_cast<float>(magnitude + kLeastNormal) - std::bit_cast<float>(kLeastNormal));
  const std::uint32_t finite = exponent == 0 ? subnormal : normal;
  const std::uint32_t unsigned_bits = exponent == kLargestExponent ? not_finite : finite;
  return std::bit_cast<float>(unsigned_bits | (half & 0x8000U) << 16);
}

void to_floats(const std::uint16_t* words, std::size_t length, float* floats) {
  for (std::size_t i = 0; i < length; ++i) floats[i] = float_of_half(words[i]);
}

void to_floats(const std::uint32_t* words, std::size_t length, float* floats) {
  std::memcpy(floats, words, length * sizeof(float));
}

std::uint16_t swapped(std::uint16_t word) { return __builtin_bswap16(word); }
std::uint32_t swapped(std::uint32_t word) { return __builtin_bswap32(word); }

/// The elements from `first` on as numbers of this machine's byte order.
template <class Word>
void gather(const StoredNumbers& numbers, std::size_t first, std::size_t length, Word* words) {
  if (!numbers.shuffled) {
    std::memcpy(words, numbers.bytes + first * sizeof(Word), length * sizeof(Word));
    if (!numbers.format.big_endian) return;
    for (std::size_t i = 0; i < length; ++i) words[i] = swapped(words[i]);
    return;
  }
  std::fill_n(words, length, Word{0});
  for (std::size_t byte = 0; byte < sizeof(Word); ++byte) {
    const unsigned char* const plane = numbers.bytes + byte * numbers.count + first;
    const std::size_t place = numbers.format.big_endian ? sizeof(Word) - 1 - byte : byte;
    for (std::size_t i = 0; i < length; ++i) {
      words[i] = static_cast<Word>(words[i] | static_cast<Word>(plane[i]) << (8 * place));
    }
  }
}

template <class Word>
void convert(const StoredNumbers& numbers, std::size_t first, std::size_t length, float* floats,
             Digest* digest) {
  Word words[kAtOnce];
  for (std::size_t done = 0; done < length; done += kAtOnce) {
    const std::size_t some = std::min(kAtOnce, length - done);
    gather(numbers, first + done, some, words);
    if (digest != nullptr) digest->update(words, some * sizeof(Word));
    to_floats(words, some, floats + done);
  }
}

}  // namespace

void StoredNumbers::read(std::size_t first, std::size_t length, float* floats,
                         Digest* digest) const {
  if (format.bytes == 2) {
    convert<std::uint16_t>(*this, first, length, floats, digest);
  } else {
    convert<std::uint32_t>(*this, first, length, floats, digest);
  }
}

void digest_numbers(const float* floats, std::size_t length, int element_bytes, Digest& digest) {
  if (element_bytes == 4) {
    digest.update(floats, length * sizeof(float));
    return;
  }
  Eigen::half halves[kAtOnce];  // each float was a half, so nothing is rounded
  for (std::size_t done = 0; done < length; done += kAtOnce) {
    const std::size_t some = std::min(kAtOnce, length - done);
    std::transform(floats + done, floats + done + some, halves,
                   [](float number) { return Eigen::half(number); });
    digest.update(halves, some * sizeof(Eigen::half));
  }
}

}  // namespace kvsim
