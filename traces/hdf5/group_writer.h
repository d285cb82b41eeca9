#pragma once

#include <H5Cpp.h>

#include <string>

namespace kvsim {

// HDF5 stores when groups were made. These functions switch that off, as equal contents have to
// give equal files. The caller holds the Hdf5Lock.

/// Makes the group of the absolute `path`, whose parent is there.
H5::Group create_group(const H5::H5File& file, const std::string& path);

/// Properties of a file whose root group has no times.
H5::FileCreatPropList without_times_of_root();

}  // namespace kvsim
