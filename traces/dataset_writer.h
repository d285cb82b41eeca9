#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <string>
#include <vector>

#include "traces/head_writer.h"

namespace kvsim {

// Write whole datasets of a trace at absolute paths, with their digests. The caller holds the
// Hdf5Lock.

/// Writes a list or a matrix of numbers in their type `type`, which is little-endian.
void write_list(const H5::H5File& file, const std::string& path, const H5::DataType& type,
                const void* numbers, const std::vector<hsize_t>& shape);

/// Writes a list of strings as uint8 [bytes] at `path` and int64 [strings + 1] at `path`_offsets.
/// Throws std::invalid_argument unless they are UTF-8.
void write_texts(const H5::H5File& file, const std::string& path,
                 const std::vector<std::string>& texts);

/// Writes one matrix per head as [heads, rows, dim], rounded to `elements`. Throws
/// std::runtime_error for a number that this type cannot hold.
void write_heads(const H5::H5File& file, const std::string& path, const std::vector<Matrix>& heads,
                 ElementType elements);

/// The same of several samples of all heads, as [samples, heads, rows, dim].
void write_samples(const H5::H5File& file, const std::string& path,
                   const std::vector<std::vector<Matrix>>& samples, ElementType elements);

/// The same of one matrix, in chunks of so many rows.
void write_matrix(const H5::H5File& file, const std::string& path, const Matrix& matrix,
                  int rows_per_chunk, ElementType elements);

}  // namespace kvsim
