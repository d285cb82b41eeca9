#pragma once

#include <map>
#include <string>
#include <string_view>

namespace kvsim {

/// The members of an .npz file, a zip file as numpy.savez or numpy.savez_compressed writes it: the
/// bytes of each .npy file by its name without the suffix. Throws DataError, which names `file`,
/// for bytes that are no such zip file, that were changed, or that hold more than 64 MiB. Source:
/// PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12, 4.3.16.
std::map<std::string, std::string> read_npz(const std::string& file, std::string_view bytes);

}  // namespace kvsim
