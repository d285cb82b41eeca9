#pragma once

#include <filesystem>
#include <string>

namespace kvsim {

/// What all partial files of `target` begin with that this process makes: TARGET.partial-MACHINE-,
/// its process id and a hyphen. MACHINE are 8 hexadecimal digits for the boot and the process
/// namespace, in which a process id means one process.
std::string own_partial_prefix(const std::filesystem::path& target);

/// Removes the partial files, and folders, of `target` whose processes are of this machine and no
/// longer there. Those of other machines, and of this one before its last start, stay: nothing is
/// known of them.
void remove_left_behind(const std::filesystem::path& target);

}  // namespace kvsim
