#include "sim/cli/printable_errors.h"

#include <string>
#include <string_view>

#include "sim/base/printable.h"

namespace kvsim::cli {

std::streamsize PrintableErrors::xsputn(const char* text, std::streamsize size) {
  std::string_view line(text, static_cast<std::size_t>(size));
  std::string shown;
  if (line.starts_with('\r')) {
    shown += '\r';
    line.remove_prefix(1);
  }
  const bool ends = line.ends_with('\n');
  if (ends) line.remove_suffix(1);
  shown += printable(line);
  if (ends) shown += '\n';
  const auto length = static_cast<std::streamsize>(shown.size());
  return below_->sputn(shown.data(), length) == length ? size : 0;
}

PrintableErrors::int_type PrintableErrors::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return 0;
  const char byte = traits_type::to_char_type(character);
  return xsputn(&byte, 1) == 1 ? character : traits_type::eof();
}

}  // namespace kvsim::cli
