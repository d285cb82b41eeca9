#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "tests/faults/bits/flipped.h"
#include "tests/faults/calls/failing_program.h"
#include "tests/faults/inputs/trace_numbers.h"
#include "tests/support/sanitized.h"

namespace kvsim::faults::flipped_bits_test {

/// Odd, so that every bit of a byte has its turn.
int stride() { return test_support::has_address_sanitizer() ? 61 : 7; }

std::vector<std::size_t> bits_of(const std::vector<std::size_t>& bytes, int stride) {
  std::vector<std::size_t> bits;
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += static_cast<std::size_t>(stride)) {
    bits.push_back(bytes[bit / 8] * 8 + bit % 8);
  }
  return bits;
}

void check_flips(const std::string& image, const std::vector<std::size_t>& bits) {
  const FlipCounts counts = flip_bits(image, bits);
  CAPTURE(bits.size(), counts.equal, counts.refused, counts.other.size(), counts.died.size());
  CHECK(counts.refused > 0);
  CHECK(counts.other == std::vector<std::size_t>{});
  CHECK(counts.died == std::vector<std::size_t>{});
}

TEST_CASE("faults: a synthetic trace with any one bit changed is refused, or read as it was") {
  const std::string image = seed_trace(true);
  std::vector<std::size_t> bytes(image.size());
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) bytes[byte] = byte;
  check_flips(image, bits_of(bytes, stride_of(stride())));
}

TEST_CASE("faults: the sample with a bit of its structure changed is refused, or read as it was") {
  std::ifstream file(KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5", std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  check_flips(image, bits_of(metadata_bytes(image), stride_of(997 * stride())));
}

}  // namespace kvsim::faults::flipped_bits_test
