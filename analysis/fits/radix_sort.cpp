#include "analysis/fits/radix_sort.h"

#include <algorithm>
#include <array>
#include <bit>

namespace kvsim {
namespace {

constexpr int kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
constexpr std::size_t kFew = 256;  // as many are sorted faster by comparison

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

std::size_t digit(std::uint64_t number, int shift) {
  return static_cast<std::size_t>(number >> shift) % kDigits;
}

}  // namespace

void radix_sort(std::vector<std::uint64_t>& numbers, int first_bit) {
  if (numbers.size() <= kFew) {
    std::ranges::stable_sort(numbers, {},
                             [&](std::uint64_t number) { return number >> first_bit; });
    return;
  }
  std::vector<std::uint64_t> sorted(numbers.size());
  std::array<std::size_t, kDigits> place;
  for (int shift = first_bit; shift < 64; shift += kDigitBits) {
    place.fill(0);
    for (const std::uint64_t number : numbers) ++place[digit(number, shift)];
    if (place[digit(numbers.front(), shift)] == numbers.size()) continue;  // they all share it
    std::size_t before = 0;
    for (std::size_t& count : place) {
      const std::size_t of_digit = count;
      count = before;
      before += of_digit;
    }
    for (const std::uint64_t number : numbers) sorted[place[digit(number, shift)]++] = number;
    numbers.swap(sorted);
  }
}

void sort_ascending(std::vector<double>& numbers) {
  // Read as integers, positive doubles ascend, and negative ones descend.
  std::vector<std::uint64_t> keys(numbers.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto bits = std::bit_cast<std::uint64_t>(numbers[i]);
    keys[i] = bits & kSign ? ~bits : bits | kSign;
  }
  radix_sort(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    numbers[i] = std::bit_cast<double>(keys[i] & kSign ? keys[i] ^ kSign : ~keys[i]);
  }
}

}  // namespace kvsim
