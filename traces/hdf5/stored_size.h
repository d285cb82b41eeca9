#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "traces/hdf5/place.h"

namespace kvsim {

// A damaged or hostile file may declare any size, filter and source of a dataset. The first
// two look at what it declares, before any of it is read, and throw DataError. The caller holds the
// Hdf5Lock.

/// Demands that the dataset's numbers lie in the file itself, that the library alone can unpack
/// them, and that the file has the bytes for what the dataset declares: no more than gzip can make
/// of what is stored.
void check_stored_size(const H5::DataSet& dataset, const Place& place, const std::string& fix);

/// Demands that all of the dataset was written: HDF5 makes up what was not.
void require_written(const H5::DataSet& dataset, const Place& place, const std::string& fix);

/// The chunks that the file holds of a chunked dataset. Throws H5::Exception.
hsize_t num_written_chunks(const H5::DataSet& dataset);

/// Whether the file holds the chunk that begins there. Throws H5::Exception.
bool holds_chunk(const H5::DataSet& dataset, const std::vector<hsize_t>& offset);

}  // namespace kvsim
