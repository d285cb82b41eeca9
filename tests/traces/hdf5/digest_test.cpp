#include "traces/hdf5/digest.h"

#include <catch2/catch.hpp>
#include <string>

namespace kvsim::digest_test {

std::string digest_of(const std::string& bytes, std::size_t piece) {
  Digest digest;
  for (std::size_t first = 0; first < bytes.size(); first += piece) {
    digest.update(bytes.data() + first, std::min(piece, bytes.size() - first));
  }
  return digest_name(digest.value());
}

TEST_CASE("digests are those of XXH3-64") {
  CHECK(digest_of("", 1) == "2d06800538d394c2");
  CHECK(digest_of("a", 1) == "e6c632b61e964e1f");
}

TEST_CASE("a digest is of all bytes, in whatever pieces they come") {
  std::string bytes(10000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i % 251);
  const std::string whole = digest_of(bytes, bytes.size());
  CHECK(digest_of(bytes, 1) == whole);
  CHECK(digest_of(bytes, 300) == whole);
  bytes[9999] ^= 1;
  CHECK(digest_of(bytes, 300) != whole);
}

TEST_CASE("a digest that is started anew forgets what came before") {
  Digest digest;
  digest.update("abc", 3);
  digest.restart();
  digest.update("a", 1);
  CHECK(digest_name(digest.value()) == digest_of("a", 1));
}

}  // namespace kvsim::digest_test
