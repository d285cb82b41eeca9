#pragma once

#include <string>
#include <string_view>

namespace kvsim {

/// `text` as people may see it on a terminal, on one line: control characters, characters without
/// an own shape (directions of writing, joiners, blanks other than ' ') and bytes that are not
/// UTF-8 become escapes, as in Python's repr(): "\x1b", "\n", "\u202e". Files keep the text itself.
std::string printable(std::string_view text);

/// `message` as the line of an error: printable, with blanks for line ends. Of a line longer than
/// 1,000 bytes the middle is left out, where the number of these bytes then stands: it begins with
/// the file or option and ends with the fix.
std::string error_line(std::string_view message);

}  // namespace kvsim
