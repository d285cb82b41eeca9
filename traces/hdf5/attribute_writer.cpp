#include "traces/hdf5/attribute_writer.h"

#include <algorithm>

namespace kvsim {

void write_attribute(const H5::H5Object& object, const std::string& name, int value) {
  object.createAttribute(name, H5::PredType::STD_I64LE, H5::DataSpace())
      .write(H5::PredType::NATIVE_INT, &value);
}

void write_attribute(const H5::H5Object& object, const std::string& name, double value) {
  object.createAttribute(name, H5::PredType::IEEE_F64LE, H5::DataSpace())
      .write(H5::PredType::NATIVE_DOUBLE, &value);
}

// Strings of variable length would lie in a global heap, which has no checksum.
void write_attribute(const H5::H5Object& object, const std::string& name,
                     const std::string& value) {
  H5::StrType type(H5::PredType::C_S1, std::max<std::size_t>(value.size(), 1));
  type.setCset(H5T_CSET_UTF8);
  type.setStrpad(H5T_STR_NULLPAD);
  object.createAttribute(name, type, H5::DataSpace()).write(type, value.c_str());
}

}  // namespace kvsim
