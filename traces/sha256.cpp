#include "traces/sha256.h"

// OpenSSL's newer interface, EVP, finds digests by name at run time: a program with the library
// linked in would hold all of its algorithms, 3 MB, in place of this one.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "traces/hdf5/place.h"

namespace kvsim {
namespace {

void require(int openssl_result) {
  if (openssl_result != 1) throw std::runtime_error("OpenSSL cannot compute SHA-256");
}

}  // namespace

struct Sha256::Context {
  Context() { require(SHA256_Init(&digest)); }
  SHA256_CTX digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}

Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, std::size_t size) {
  require(SHA256_Update(&context_->digest, bytes, size));
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  require(SHA256_Final(digest.data(), &context_->digest));
  std::string hexadecimal;
  for (const unsigned char byte : digest) hexadecimal += fmt::format("{:02x}", byte);
  return hexadecimal;
}

std::string sha256(const std::string& bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.finish();
}

std::string sha256_of_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  Sha256 hash;
  while (stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.update(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (!stream.eof()) Place{file.string(), ""}.fail("a file that can be read", "a read error");
  return hash.finish();
}

}  // namespace kvsim
