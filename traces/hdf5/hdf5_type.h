#pragma once

#include <H5Cpp.h>

#include <Eigen/Core>
#include <string>

namespace kvsim {

/// A matrix of half-precision numbers, row by row, as half_type() describes them.
using HalfMatrix = Eigen::Matrix<Eigen::half, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// IEEE half precision, which HDF5 1.10 does not predefine; by default in the machine's byte order.
H5::FloatType half_type(H5T_order_t order = H5::PredType::NATIVE_FLOAT.getOrder());

bool is_float16(const H5::DataType& type);  ///< of either byte order
bool is_float32(const H5::DataType& type);  ///< of either byte order
bool is_float64(const H5::DataType& type);  ///< of either byte order
bool is_int32(const H5::DataType& type);    ///< of either byte order
bool is_int64(const H5::DataType& type);    ///< of either byte order

/// The name of the type in messages: "float16", "int64", "a string".
std::string type_name(const H5::DataType& type);

/// The shape in messages: "[4, 512, 16]"; "a single value" for a scalar.
std::string shape_name(const H5::DataSpace& space);

}  // namespace kvsim
