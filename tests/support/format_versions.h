#pragma once

#include <filesystem>
#include <string>

namespace kvsim::traces_test {

/// Seals a trace of version 2 anew after it was edited: digests and manifest are those of what it
/// holds now.
void seal_again(const std::filesystem::path& file);

/// Makes a trace of version 2 one of version 1, with the same numbers: no digests, no manifest, and
/// datasets of strings of variable length. Its trace_id is that of version 1 if `id` is not empty.
void make_version_1(const std::filesystem::path& file, const std::string& id = "");

}  // namespace kvsim::traces_test
