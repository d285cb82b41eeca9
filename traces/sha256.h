#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace kvsim {

/// SHA-256 of bytes given piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void update(const void* bytes, std::size_t size);
  /// The digest in lower-case hexadecimal. No call may follow.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256(const std::string& bytes);

/// The digest of a whole file, read in pieces. Throws DataError if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace kvsim
