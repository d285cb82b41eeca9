#include "traces/hdf5/digest.h"

#define XXH_INLINE_ALL  // without a library to link
#include <fmt/format.h>
#include <xxhash.h>

namespace kvsim {

struct Digest::State {
  XXH3_state_t xxh3;
};

Digest::Digest() : state_(std::make_unique<State>()) { restart(); }

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::restart() { XXH3_64bits_reset(&state_->xxh3); }

void Digest::update(const void* bytes, std::size_t size) {
  XXH3_64bits_update(&state_->xxh3, bytes, size);
}

std::uint64_t Digest::value() const { return XXH3_64bits_digest(&state_->xxh3); }

std::string digest_name(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

}  // namespace kvsim
