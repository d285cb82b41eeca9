#include "traces/hdf5/hdf5_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace kvsim {
namespace {

bool either(const H5::DataType& type, const H5::DataType& one, const H5::DataType& other) {
  return type == one || type == other;
}

}  // namespace

H5::FloatType half_type(H5T_order_t order) {
  H5::FloatType type(H5::PredType::IEEE_F32LE);
  type.setFields(15, 10, 5, 0, 10);
  type.setSize(2);
  type.setEbias(15);
  type.setOrder(order);
  return type;
}

bool is_float16(const H5::DataType& type) {
  return either(type, half_type(H5T_ORDER_LE), half_type(H5T_ORDER_BE));
}

bool is_float32(const H5::DataType& type) {
  return either(type, H5::PredType::IEEE_F32LE, H5::PredType::IEEE_F32BE);
}

bool is_float64(const H5::DataType& type) {
  return either(type, H5::PredType::IEEE_F64LE, H5::PredType::IEEE_F64BE);
}

bool is_int32(const H5::DataType& type) {
  return either(type, H5::PredType::STD_I32LE, H5::PredType::STD_I32BE);
}

bool is_int64(const H5::DataType& type) {
  return either(type, H5::PredType::STD_I64LE, H5::PredType::STD_I64BE);
}

std::string type_name(const H5::DataType& type) {
  const std::size_t bits = 8 * type.getSize();
  switch (type.getClass()) {
    case H5T_FLOAT:
      if (is_float16(type) || is_float32(type) || is_float64(type)) {
        return fmt::format("float{}", bits);
      }
      return fmt::format("a {}-bit float that is not IEEE", bits);
    case H5T_INTEGER:
      return fmt::format("{}int{}", H5Tget_sign(type.getId()) == H5T_SGN_NONE ? "u" : "", bits);
    case H5T_STRING:
      return "a string";
    case H5T_ENUM:
      return "an enumeration";
    case H5T_COMPOUND:
      return "a compound";
    case H5T_VLEN:
      return "a list of variable length";
    default:
      return "another type";
  }
}

std::string shape_name(const H5::DataSpace& space) {
  if (space.getSimpleExtentType() == H5S_NULL) return "nothing";
  const int rank = space.getSimpleExtentNdims();
  if (rank == 0) return "a single value";
  std::vector<hsize_t> shape(rank);
  space.getSimpleExtentDims(shape.data());
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace kvsim
