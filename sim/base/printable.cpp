#include "sim/base/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvsim {
namespace {

bool is_plain(char character) { return character >= ' ' && character <= '~'; }

/// Text without '"' and '\', which the format would escape, too.
std::string escaped(std::string_view text) {
  const std::string quoted = fmt::format("{:?}", text);
  return quoted.substr(1, quoted.size() - 2);
}

bool begins_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; }

}  // namespace

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string shown;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\"\\"), text.size());
    shown += escaped(text.substr(0, end));
    shown += text.substr(end, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shown;
}

std::string error_line(std::string_view message) {
  constexpr std::size_t kLongest = 1000;
  constexpr std::size_t kKept = 480;  // of each end
  std::string line(message);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  line = printable(line);
  if (line.size() <= kLongest) return line;
  std::size_t head = kKept;
  while (!begins_a_character(line[head])) --head;
  std::size_t tail = line.size() - kKept;
  while (!begins_a_character(line[tail])) ++tail;
  return fmt::format("{} [... {} bytes ...] {}", line.substr(0, head), tail - head,
                     line.substr(tail));
}

}  // namespace kvsim
