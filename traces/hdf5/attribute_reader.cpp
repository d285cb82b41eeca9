#include "traces/hdf5/attribute_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "traces/hdf5/hdf5_type.h"

namespace kvsim {
namespace {

constexpr std::size_t kMostBytes = 1 << 14;  // a damaged file may declare any size

std::string range_name(int lowest, int highest) {
  if (highest == std::numeric_limits<int>::max()) {
    return fmt::format("an integer of at least {}", lowest);
  }
  if (lowest == highest) return fmt::format("the integer {}", lowest);
  return fmt::format("an integer in {}..{}", lowest, highest);
}

std::string read_variable_text(const H5::Attribute& attribute, const H5::StrType& type) {
  char* characters = nullptr;
  attribute.read(type, &characters);
  if (characters == nullptr) return "";
  std::string text(characters);
  H5free_memory(characters);
  return text;
}

std::string read_fixed_text(const H5::Attribute& attribute, const H5::StrType& type) {
  std::string text(type.getSize(), '\0');
  attribute.read(type, text.data());
  text.resize(std::min(text.find('\0'), text.size()));
  if (type.getStrpad() == H5T_STR_SPACEPAD) text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

AttributeReader::AttributeReader(const H5::H5Object& object, Place place, std::string fix,
                                 bool variable_strings)
    : object_(object),
      place_(std::move(place)),
      fix_(std::move(fix)),
      variable_strings_(variable_strings) {}

bool AttributeReader::has(const std::string& name) const { return object_.attrExists(name); }

H5::Attribute AttributeReader::attribute(const std::string& name,
                                         const std::string& expected) const {
  if (!has(name)) place_.attribute(name).fail(expected, "nothing", fix_);
  H5::Attribute attribute = object_.openAttribute(name);
  const H5::DataSpace space = attribute.getSpace();
  if (space.getSimpleExtentNpoints() != 1) {
    place_.attribute(name).fail(expected, shape_name(space), fix_);
  }
  if (const std::size_t size = attribute.getDataType().getSize(); size > kMostBytes) {
    place_.attribute(name).fail(fmt::format("{} of at most {} bytes", expected, kMostBytes),
                                fmt::format("{}", size), fix_);
  }
  return attribute;
}

int AttributeReader::integer(const std::string& name, int lowest, int highest) const {
  const std::string expected = range_name(lowest, highest);
  const H5::Attribute found = attribute(name, expected);
  if (found.getTypeClass() != H5T_INTEGER) {
    place_.attribute(name).fail(expected, type_name(found.getDataType()), fix_);
  }
  std::int64_t value = 0;
  found.read(H5::PredType::NATIVE_INT64, &value);
  if (value < lowest || value > highest) {
    place_.attribute(name).fail(expected, fmt::format("{}", value), fix_);
  }
  return static_cast<int>(value);
}

double AttributeReader::positive(const std::string& name) const {
  const std::string expected = "a positive number";
  const H5::Attribute found = attribute(name, expected);
  if (found.getTypeClass() != H5T_FLOAT && found.getTypeClass() != H5T_INTEGER) {
    place_.attribute(name).fail(expected, type_name(found.getDataType()), fix_);
  }
  double value = 0;
  found.read(H5::PredType::NATIVE_DOUBLE, &value);
  // It is used in single precision.
  if (!std::isnormal(static_cast<float>(value)) || value <= 0) {
    place_.attribute(name).fail(expected, fmt::format("{}", value), fix_);
  }
  return value;
}

std::string AttributeReader::text(const std::string& name) const {
  const H5::Attribute found = attribute(name, "a string");
  if (found.getTypeClass() != H5T_STRING) {
    place_.attribute(name).fail("a string", type_name(found.getDataType()), fix_);
  }
  const H5::StrType type = found.getStrType();
  if (type.isVariableStr() && !variable_strings_) {
    place_.attribute(name).fail("a string of fixed length", "one of variable length", fix_);
  }
  std::string text =
      type.isVariableStr() ? read_variable_text(found, type) : read_fixed_text(found, type);
  if (text.size() > kMostBytes) {
    place_.attribute(name).fail(fmt::format("a string of at most {} bytes", kMostBytes),
                                fmt::format("{}", text.size()), fix_);
  }
  return text;
}

std::string AttributeReader::optional_text(const std::string& name) const {
  return has(name) ? text(name) : "";
}

}  // namespace kvsim
