#include "sim/sweep/head_table_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/base/printable.h"
#include "sim/results/numpy/file_bytes.h"
#include "sim/results/numpy/npy.h"

namespace kvsim {
namespace {

const std::string kHowToSave = "save it with numpy.save(PATH, array.astype(numpy.float32))";

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
      refuse_file(file, fmt::format("numbers in line {}", number),
                  fmt::format("'{}'", printable(std::string(at, stop))),
                  "write a line per layer, with a number per head");
    }
    values.push_back(value);
    at = rest;
  }
}

}  // namespace

HeadTable table_of_npy(const std::string& file, std::string_view bytes) {
  const std::array types{kFloat32, kFloat64};
  const NpyArray array = read_npy(file, bytes, types, kHowToSave);
  if (array.type == kFloat64.type) {
    return table_of_shape(file, array.shape, array.numbers<double>());
  }
  const std::vector<float> numbers = array.numbers<float>();
  return table_of_shape(file, array.shape, {numbers.begin(), numbers.end()});
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
      refuse_file(file, fmt::format("{} numbers in line {}, as in those before", heads, number),
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
    refuse_file(
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
    refuse_file(file, "finite numbers", fmt::format("{}", value), "write nan for no head");
  }
  return table;
}

}  // namespace kvsim
