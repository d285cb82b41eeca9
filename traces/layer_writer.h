#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "traces/trace_writer.h"

namespace kvsim {

// Parts of TraceWriter. The caller holds the Hdf5Lock for what writes.

/// Throws std::invalid_argument.
void require(bool condition, const std::string& message);

/// Throws std::invalid_argument unless there are so many matrices [tokens, dim].
void require_shape(const std::string& name, const std::vector<Matrix>& heads, int num_heads,
                   int tokens, int dim);

/// The shape of a layer that has these vectors, without scale and rope. Throws
/// std::invalid_argument.
LayerShape shape_of_vectors(const std::vector<Matrix>& query, const std::vector<Matrix>& key,
                            const std::vector<Matrix>& value);

/// Writes the attributes of a layer, of its shape what is not as in `outer`.
void write_layer_attributes(const H5::Group& group, const LayerShape& shape,
                            const LayerShape& outer, const LayerAttributes& attributes);

/// Makes the group.
void write_rope(H5::H5File& h5, const std::string& group, const Rope& rope);

}  // namespace kvsim
