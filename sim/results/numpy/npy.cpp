#include "sim/results/numpy/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "sim/base/printable.h"
#include "sim/results/numpy/file_bytes.h"

namespace kvsim {
namespace {

/// The header of an .npy file, a Python literal; `data` is what follows it.
std::string npy_header(const std::string& place, std::string_view bytes, std::string_view& data,
                       const std::string& fix) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at]));
  };
  if (bytes.size() < 12 || bytes.substr(0, kMagic.size()) != kMagic) {
    refuse_file(place, "an .npy file", "something else", fix);
  }
  const bool is_first = byte(6) == 1;
  const std::size_t begin = is_first ? 10 : 12;
  std::size_t length = byte(8) + (byte(9) << 8U);
  if (!is_first) length += (byte(10) << 16U) + (byte(11) << 24U);
  constexpr std::size_t kMostHeader = 4096;
  if (length > std::min(kMostHeader, bytes.size() - begin)) {
    refuse_file(place, "a whole .npy file", "a part", fix);
  }
  data = bytes.substr(begin + length);
  return std::string(bytes.substr(begin, length));
}

std::string entry_of(const std::string& header, const std::string& name) {
  std::smatch match;
  const std::regex entry("'" + name + "': *(\\([^)]*\\)|'[^']*'|[A-Za-z]+)");
  return std::regex_search(header, match, entry) ? match[1].str() : "";
}

std::string names_of(std::span<const NpyType> types) {
  std::string names;
  for (const NpyType& type : types) {
    names += names.empty() ? "" : " or ";
    names += type.name;
  }
  return names;
}

}  // namespace

NpyArray read_npy(const std::string& place, std::string_view bytes, std::span<const NpyType> types,
                  const std::string& fix) {
  NpyArray array;
  const std::string header = npy_header(place, bytes, array.data, fix);
  const std::string type = entry_of(header, "descr");
  const auto known = std::find_if(types.begin(), types.end(), [&](const NpyType& each) {
    return type == fmt::format("'{}'", each.type);
  });
  if (known == types.end()) {
    refuse_file(place, names_of(types), type.empty() ? "no type" : printable(type), fix);
  }
  array.type = known->type;
  if (entry_of(header, "fortran_order") != "False") {
    refuse_file(place, "an array in C order", "another order",
                "save numpy.ascontiguousarray(array)");
  }
  const std::string sizes = entry_of(header, "shape");
  static const std::regex kShape(R"(\(([0-9]+, *)*([0-9]+,? *)?\))");
  if (!std::regex_match(sizes, kShape)) {
    refuse_file(place, "a shape of whole numbers", printable(sizes), fix);
  }
  static const std::regex kSize("[0-9]+");
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  std::size_t count = 1;
  for (std::sregex_iterator size(sizes.begin(), sizes.end(), kSize), end; size != end; ++size) {
    const std::string digits = size->str();
    array.shape.push_back(digits.size() > 9 ? kMost : std::stoul(digits));
    count = std::min(kMost, count * std::min(kMost, array.shape.back()));
  }
  if (array.data.size() != count * known->bytes) {
    refuse_file(place, fmt::format("{} numbers as its shape {} says", count, printable(sizes)),
                fmt::format("{} bytes", array.data.size()), fix);
  }
  return array;
}

}  // namespace kvsim
