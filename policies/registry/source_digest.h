#pragma once

#include <map>
#include <string>
#include <string_view>

namespace kvsim {

/// Per file that defines a policy, a combinator, an oracle or the allocations: the SHA-256 of its
/// code, as source_digests.cmake takes it when kvsim is built.
const std::map<std::string, std::string, std::less<>>& source_digests();

/// The digest of one of these files, as in "policies/h2o.cpp". Throws std::logic_error if the table
/// does not have it.
std::string source_digest(std::string_view file);

}  // namespace kvsim
