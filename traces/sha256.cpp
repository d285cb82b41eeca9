#include "traces/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

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
  Context() { require(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr)); }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}

Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, std::size_t size) {
  require(EVP_DigestUpdate(context_->digest.get(), bytes, size));
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(context_->digest.get(), digest.data(), nullptr));
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
