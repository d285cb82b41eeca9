#pragma once

#include <H5Cpp.h>

#include <string>

namespace kvsim {

// Write an attribute that the group or dataset lacks: int64, float64, or UTF-8 of fixed length. The
// caller holds the Hdf5Lock.

void write_attribute(const H5::H5Object& object, const std::string& name, int value);
void write_attribute(const H5::H5Object& object, const std::string& name, double value);
void write_attribute(const H5::H5Object& object, const std::string& name, const std::string& value);

}  // namespace kvsim
