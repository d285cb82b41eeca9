#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kvsim {

/// XXH3-64 of bytes given piece by piece: it finds damage, at the speed of memory, and does not
/// stand up to an attacker (Yann Collet, https://xxhash.com).
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void restart();
  void update(const void* bytes, std::size_t size);
  /// The digest of all bytes since the last restart. More may follow.
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 16 hexadecimal digits, the way manifests and messages spell digests.
std::string digest_name(std::uint64_t digest);

}  // namespace kvsim
