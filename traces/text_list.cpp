#include "traces/text_list.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"
#include "traces/hdf5/utf8.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {
namespace {

std::string offsets_of(const std::string& name) { return name + "_offsets"; }

void check_list(const GroupReader& group, const std::string& name, bool is_type,
                const std::string& type, const std::string& shape) {
  const H5::DataSet dataset = group.dataset(name);
  const Place place = group.place().child(name);
  if (!is_type) place.fail(type, type_name(dataset.getDataType()), group.fix());
  const std::string found = shape_name(dataset.getSpace());
  if (!shape.empty() && found != shape) place.fail("shape " + shape, found, group.fix());
}

std::vector<std::string> read_variable(const H5::DataSet& dataset, const H5::StrType& type,
                                       std::size_t count) {
  std::vector<char*> raw(count);
  dataset.read(raw.data(), type);
  std::vector<std::string> text;
  text.reserve(count);
  for (const char* token : raw) text.emplace_back(token == nullptr ? "" : token);
  const H5::DataSpace space = dataset.getSpace();
  H5::DataSet::vlenReclaim(raw.data(), type, space);
  return text;
}

std::vector<std::string> read_fixed(const H5::DataSet& dataset, const H5::StrType& type,
                                    std::size_t count) {
  const std::size_t width = type.getSize();
  std::vector<char> raw(count * width);
  dataset.read(raw.data(), type);
  std::vector<std::string> text;
  for (std::size_t i = 0; i < count; ++i) {
    const char* token = raw.data() + i * width;
    text.emplace_back(token, strnlen(token, width));
  }
  return text;
}

}  // namespace

void check_text_list(const GroupReader& group, const std::string& name, std::size_t count) {
  const H5::DataType type = group.dataset(name).getDataType();
  if (group.variable_strings()) {
    check_list(group, name, type.getClass() == H5T_STRING, "strings", fmt::format("[{}]", count));
    require_written(group.dataset(name), group.place().child(name), group.fix());
    return;
  }
  check_list(group, name, type == H5::PredType::STD_U8LE, "uint8", "");
  if (group.dataset(name).getSpace().getSimpleExtentNdims() != 1) {
    group.place().child(name).fail("a list", shape_name(group.dataset(name).getSpace()),
                                   group.fix());
  }
  check_list(group, offsets_of(name), is_int64(group.dataset(offsets_of(name)).getDataType()),
             "int64", fmt::format("[{}]", count + 1));
}

std::vector<std::string> read_text_list(const GroupReader& group, const std::string& name,
                                        std::size_t count) {
  const H5::DataSet dataset = group.dataset(name);
  if (group.variable_strings()) {
    return count == 0 ? std::vector<std::string>() : read_texts(dataset);
  }
  const Place place = group.place().child(name);
  const Place offsets_place = group.place().child(offsets_of(name));
  const auto bytes = read_list<char>(dataset, place, group.fix());
  const auto offsets =
      read_list<std::int64_t>(group.dataset(offsets_of(name)), offsets_place, group.fix());
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (offsets.front() != 0 || offsets.back() != size) {
    offsets_place.fail(fmt::format("offsets from 0 to {}", size),
                       fmt::format("{} to {}", offsets.front(), offsets.back()), group.fix());
  }
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (offsets[i + 1] < offsets[i] || offsets[i + 1] > size) {
      offsets_place.fail(fmt::format("at [{}] a number in {}..{}", i + 1, offsets[i], size),
                         fmt::format("{}", offsets[i + 1]), group.fix());
    }
    texts.emplace_back(bytes.data() + offsets[i], offsets[i + 1] - offsets[i]);
    if (!is_utf8(texts.back())) {
      place.fail(fmt::format("UTF-8 at [{}]", i), "other bytes", group.fix());
    }
  }
  return texts;
}

std::vector<std::string> read_texts(const H5::DataSet& dataset) {
  const auto count = static_cast<std::size_t>(dataset.getSpace().getSimpleExtentNpoints());
  const H5::StrType type = dataset.getStrType();
  return type.isVariableStr() ? read_variable(dataset, type, count)
                              : read_fixed(dataset, type, count);
}

}  // namespace kvsim
