#include "traces/hdf5/group_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "traces/hdf5/hdf5_type.h"

namespace kvsim {
namespace {

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

GroupReader::GroupReader(Place place, const H5::Group& group, std::string fix)
    : place_(std::move(place)), group_(group), fix_(std::move(fix)) {}

std::string GroupReader::file_image() const {
  const hid_t file = H5Iget_file_id(group_.getId());
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  std::string image(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  const ssize_t copied = H5Fget_file_image(file, image.data(), image.size());
  H5Fclose(file);
  if (size <= 0 || copied != size) place_.fail("a file that can be copied", "one that cannot");
  return image;
}

std::vector<std::string> GroupReader::names() const {
  std::vector<std::string> names;
  for (hsize_t index = 0; index < group_.getNumObjs(); ++index) {
    names.push_back(group_.getObjnameByIdx(index));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool GroupReader::contains(const std::string& name) const {
  return H5Lexists(group_.getId(), name.c_str(), H5P_DEFAULT) > 0 &&
         H5Oexists_by_name(group_.getId(), name.c_str(), H5P_DEFAULT) > 0;
}

GroupReader GroupReader::group(const std::string& name, const std::string& fix) const {
  const Place place = place_.child(name);
  if (!contains(name)) place.fail("a group", "nothing", fix);
  if (group_.childObjType(name) != H5O_TYPE_GROUP) place.fail("a group", "something else", fix);
  return GroupReader(place, group_.openGroup(name), fix);
}

H5::DataSet GroupReader::dataset(const std::string& name) const {
  const Place place = place_.child(name);
  if (!contains(name)) place.fail("a dataset", "nothing", fix_);
  if (group_.childObjType(name) != H5O_TYPE_DATASET) {
    place.fail("a dataset", "something else", fix_);
  }
  return group_.openDataSet(name);
}

bool GroupReader::has_attribute(const std::string& name) const { return group_.attrExists(name); }

H5::Attribute GroupReader::attribute(const std::string& name, const std::string& expected) const {
  if (!has_attribute(name)) place_.attribute(name).fail(expected, "nothing", fix_);
  H5::Attribute attribute = group_.openAttribute(name);
  const H5::DataSpace space = attribute.getSpace();
  if (space.getSimpleExtentNpoints() != 1) {
    place_.attribute(name).fail(expected, shape_name(space), fix_);
  }
  return attribute;
}

int GroupReader::integer(const std::string& name, int lowest, int highest) const {
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

double GroupReader::positive(const std::string& name) const {
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

std::string GroupReader::text(const std::string& name) const {
  const H5::Attribute found = attribute(name, "a string");
  if (found.getTypeClass() != H5T_STRING) {
    place_.attribute(name).fail("a string", type_name(found.getDataType()), fix_);
  }
  const H5::StrType type = found.getStrType();
  return type.isVariableStr() ? read_variable_text(found, type) : read_fixed_text(found, type);
}

std::string GroupReader::optional_text(const std::string& name) const {
  return has_attribute(name) ? text(name) : "";
}

}  // namespace kvsim
