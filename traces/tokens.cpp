#include "traces/tokens.h"

#include <cstring>

namespace kvsim {
namespace {

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

std::vector<std::int32_t> read_token_ids(const GroupReader& sequence) {
  if (!sequence.contains("token_ids")) return {};
  const H5::DataSet dataset = sequence.dataset("token_ids");
  std::vector<std::int32_t> ids(
      static_cast<std::size_t>(dataset.getSpace().getSimpleExtentNpoints()));
  dataset.read(ids.data(), H5::PredType::NATIVE_INT32);
  return ids;
}

std::vector<std::string> read_token_text(const GroupReader& sequence) {
  if (!sequence.contains("token_text")) return {};
  return read_texts(sequence.dataset("token_text"));
}

std::vector<std::string> read_texts(const H5::DataSet& dataset) {
  const auto count = static_cast<std::size_t>(dataset.getSpace().getSimpleExtentNpoints());
  const H5::StrType type = dataset.getStrType();
  return type.isVariableStr() ? read_variable(dataset, type, count)
                              : read_fixed(dataset, type, count);
}

}  // namespace kvsim
