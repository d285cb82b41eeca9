#pragma once

#include <H5Cpp.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kvsim::traces_test {

/// Opens a file, to write what TraceWriter would not.
inline H5::H5File edit(const std::filesystem::path& file) {
  return H5::H5File(file.string(), H5F_ACC_RDWR);
}

template <class Value>
void set_attribute(const H5::Group& group, const std::string& name, const H5::DataType& type,
                   const Value& value) {
  if (group.attrExists(name)) group.removeAttr(name);
  group.createAttribute(name, type, H5::DataSpace()).write(type, &value);
}

inline void set_integer(const H5::Group& group, const std::string& name, std::int64_t value) {
  set_attribute(group, name, H5::PredType::NATIVE_INT64, value);
}

inline void set_real(const H5::Group& group, const std::string& name, double value) {
  set_attribute(group, name, H5::PredType::NATIVE_DOUBLE, value);
}

inline void set_text(const H5::Group& group, const std::string& name, const std::string& value) {
  set_attribute(group, name, H5::StrType(H5::PredType::C_S1, H5T_VARIABLE), value.c_str());
}

/// Creates a dataset of this type and shape at `path`, in place of an existing one, and returns it.
inline H5::DataSet set_dataset(const H5::H5File& file, const std::string& path,
                               const H5::DataType& type, const std::vector<hsize_t>& shape,
                               const H5::DSetCreatPropList& properties = {}) {
  if (file.nameExists(path)) file.unlink(path);
  const H5::DataSpace space(static_cast<int>(shape.size()), shape.data());
  return file.createDataSet(path, type, space, properties);
}

/// Overwrites one number of a dataset.
inline void set_number(const H5::H5File& file, const std::string& path,
                       const std::vector<hsize_t>& index, float number) {
  const H5::DataSet dataset = file.openDataSet(path);
  const H5::DataSpace space = dataset.getSpace();
  space.selectElements(H5S_SELECT_SET, 1, index.data());
  dataset.write(&number, H5::PredType::NATIVE_FLOAT, H5::DataSpace(), space);
}

}  // namespace kvsim::traces_test
