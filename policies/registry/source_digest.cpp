#include "policies/registry/source_digest.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kvsim {

std::string source_digest(std::string_view file) {
  const auto found = source_digests().find(file);
  if (found == source_digests().end()) {
    throw std::logic_error(
        fmt::format("{}: source_digests.cmake has no digest of this file", file));
  }
  return found->second;
}

}  // namespace kvsim
