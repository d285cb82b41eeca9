#include "sim/sweep/head_table_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <regex>

#include "sim/base/printable.h"

namespace kvsim {
namespace {

const std::string kHowToSave = "save it with numpy.save(PATH, array.astype(numpy.float32))";

template <class Number>
void append_numbers(std::string_view bytes, std::vector<double>& values) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + i, sizeof(Number));
    values.push_back(static_cast<double>(number));
  }
}

/// The header of an .npy file, a Python literal; `data` is what follows it.
std::string npy_header(const std::string& file, std::string_view bytes, std::string_view& data) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at]));
  };
  if (bytes.size() < 12 || bytes.substr(0, kMagic.size()) != kMagic) {
    refuse_table(file, "an .npy file", "something else", kHowToSave);
  }
  const bool is_first = byte(6) == 1;
  const std::size_t begin = is_first ? 10 : 12;
  std::size_t length = byte(8) + (byte(9) << 8U);
  if (!is_first) length += (byte(10) << 16U) + (byte(11) << 24U);
  constexpr std::size_t kMostHeader = 4096;
  if (length > std::min(kMostHeader, bytes.size() - begin)) {
    refuse_table(file, "a whole .npy file", "a part", kHowToSave);
  }
  data = bytes.substr(begin + length);
  return std::string(bytes.substr(begin, length));
}

std::string entry_of(const std::string& header, const std::string& name) {
  std::smatch match;
  const std::regex entry("'" + name + "': *(\\([^)]*\\)|'[^']*'|[A-Za-z]+)");
  return std::regex_search(header, match, entry) ? match[1].str() : "";
}

bool is_separator(char c) { return c == '\t' || c == ' ' || c == ',' || c == '\r'; }

/// The numbers of a line, separated by blanks, tabs or commas.
std::vector<double> numbers_of_line(const std::string& file, std::string_view line, int number) {
  std::vector<double> values;
  const char* at = line.data();
  const char* end = at + line.size();
  while (true) {
    while (at != end && is_separator(*at)) ++at;
    if (at == end) return values;
    double value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (rest != end && !is_separator(*rest))) {
      const char* stop = at;
      while (stop != end && !is_separator(*stop)) ++stop;
      refuse_table(file, fmt::format("numbers in line {}", number),
                   fmt::format("'{}'", printable(std::string(at, stop))),
                   "write a line per layer, with a number per head");
    }
    values.push_back(value);
    at = rest;
  }
}

}  // namespace

HeadTable table_of_npy(const std::string& file, std::string_view bytes) {
  std::string_view data;
  const std::string header = npy_header(file, bytes, data);
  const std::string type = entry_of(header, "descr");
  if (type != "'<f4'" && type != "'<f8'") {
    refuse_table(file, "float32 or float64", type.empty() ? "no type" : type, kHowToSave);
  }
  if (entry_of(header, "fortran_order") != "False") {
    refuse_table(file, "an array in C order", "another order",
                 "save numpy.ascontiguousarray(array)");
  }
  std::vector<std::size_t> shape;
  const std::string sizes = entry_of(header, "shape");
  static const std::regex kSize("[0-9]+");
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  std::size_t count = 1;
  for (std::sregex_iterator size(sizes.begin(), sizes.end(), kSize), end; size != end; ++size) {
    const std::string digits = size->str();
    shape.push_back(digits.size() > 9 ? kMost : std::stoul(digits));
    count = std::min(kMost, count * std::min(kMost, shape.back()));
  }
  const std::size_t each = type == "'<f4'" ? 4 : 8;
  if (data.size() != count * each) {
    refuse_table(file, fmt::format("{} numbers as its shape {} says", count, sizes),
                 fmt::format("{} bytes", data.size()), kHowToSave);
  }
  std::vector<double> values;
  if (each == 4) append_numbers<float>(data, values);
  if (each == 8) append_numbers<double>(data, values);
  return table_of_shape(file, shape, std::move(values));
}

HeadTable table_of_text(const std::string& file, std::string_view bytes) {
  std::vector<double> values;
  std::size_t heads = 0;
  std::size_t layers = 0;
  int number = 0;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    ++number;
    const std::vector<double> line = numbers_of_line(file, bytes.substr(0, end), number);
    bytes.remove_prefix(std::min(bytes.size(), end + 1));
    if (line.empty()) continue;
    if (heads > 0 && line.size() != heads) {
      refuse_table(file, fmt::format("{} numbers in line {}, as in those before", heads, number),
                   fmt::format("{}", line.size()), "write nan where a layer has fewer heads");
    }
    heads = line.size();
    ++layers;
    values.insert(values.end(), line.begin(), line.end());
  }
  return table_of_shape(file, {layers, heads}, std::move(values));
}

HeadTable table_of_shape(const std::string& file, const std::vector<std::size_t>& shape,
                         std::vector<double> values) {
  const bool is_empty = values.empty();
  if (is_empty || shape.size() < 2 || shape.size() > 3) {
    refuse_table(
        file, "[layers, heads] or [rows, layers, heads]",
        is_empty ? std::string("no numbers") : fmt::format("shape [{}]", fmt::join(shape, ", ")),
        "see kvsim policies @file");
  }
  HeadTable table{.file = file};
  table.rows = shape.size() == 3 ? static_cast<int>(shape.front()) : 1;
  table.layers = static_cast<int>(shape[shape.size() - 2]);
  table.heads = static_cast<int>(shape.back());
  table.values = std::move(values);
  for (const double value : table.values) {
    if (!std::isinf(value)) continue;
    refuse_table(file, "finite numbers", fmt::format("{}", value), "write nan for no head");
  }
  return table;
}

}  // namespace kvsim
