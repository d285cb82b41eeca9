#include "sim/cache/token_set.h"

#include <algorithm>

#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

template <class Target>
KVSIM_INLINE int common(const std::uint64_t* a, const std::uint64_t* b, std::size_t count) {
  int tokens = 0;
  for (std::size_t i = 0; i < count; ++i) tokens += __builtin_popcountll(a[i] & b[i]);
  return tokens;
}
KVSIM_KERNEL(int, common, (const std::uint64_t* a, const std::uint64_t* b, std::size_t count),
             (a, b, count))

template <class Target>
KVSIM_INLINE int different(const std::uint64_t* a, const std::uint64_t* b, std::size_t count) {
  int tokens = 0;
  for (std::size_t i = 0; i < count; ++i) tokens += __builtin_popcountll(a[i] ^ b[i]);
  return tokens;
}
KVSIM_KERNEL(int, different, (const std::uint64_t* a, const std::uint64_t* b, std::size_t count),
             (a, b, count))

}  // namespace

int count_common(TokenWords a, TokenWords b) {
  return best_common(a.data(), b.data(), std::min(a.size(), b.size()));
}

int count_different(TokenWords a, TokenWords b) {
  return best_different(a.data(), b.data(), std::min(a.size(), b.size()));
}

}  // namespace kvsim
