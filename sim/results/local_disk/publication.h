#pragma once

#include <filesystem>
#include <string>

#include "traces/output/partial_file.h"

namespace kvsim {

/// What tells a file from the one that stood under its name before; "none" if there is none.
std::string fingerprint(const std::filesystem::path& file);

/// `file` with `before`, the host, the process and `after`: a name that only this process uses.
std::filesystem::path name_of_this_process(const std::filesystem::path& file,
                                           const std::string& before, const std::string& after);

/// Copies the committed content of the database `local` to a new file next to `place`, down to the
/// disk. Throws std::runtime_error with the reason, and then leaves no file.
PartialFile write_partial(const std::filesystem::path& local, const std::filesystem::path& place);

/// Renames `partial` to `place` if that still has the fingerprint `expected`. Returns whether it
/// had; if not, nothing changed. Throws std::runtime_error with the reason.
bool put_in_place(PartialFile& partial, const std::filesystem::path& place,
                  const std::string& expected);

}  // namespace kvsim
