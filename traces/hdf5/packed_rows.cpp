#include "traces/hdf5/packed_rows.h"

#include <algorithm>
#include <utility>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"

namespace kvsim {
namespace {

ChunkFilters::Packed make_room(std::size_t bytes) {
  return {.bytes = std::make_unique_for_overwrite<unsigned char[]>(bytes), .size = bytes};
}

/// Whether a chunk holds rows of one matrix alone. The library keeps the last chunks that it
/// unpacked, which is better than to unpack a chunk for each of its matrices.
bool is_of_one_matrix(const std::vector<hsize_t>& chunk) {
  return std::all_of(chunk.begin(), chunk.end() - 2, [](hsize_t size) { return size == 1; });
}

}  // namespace

std::vector<hsize_t> chunk_shape(const H5::DataSet& dataset) {
  const H5::DSetCreatPropList properties = dataset.getCreatePlist();
  if (properties.getLayout() != H5D_CHUNKED) return {};
  std::vector<hsize_t> chunk(dataset.getSpace().getSimpleExtentNdims());
  properties.getChunk(static_cast<int>(chunk.size()), chunk.data());
  return chunk;
}

std::optional<ChunkFilters> PackedRows::filters_of_chunks(const H5::DataSet& dataset,
                                                          NumberFormat format) {
  const std::vector<hsize_t> chunk = chunk_shape(dataset);
  if (chunk.empty() || !is_of_one_matrix(chunk)) return {};
  return ChunkFilters::of(dataset, format);
}

PackedRows::PackedRows(const H5::DataSet& dataset, NumberFormat format, Selection rows)
    : format_(format), selection_(std::move(rows)), filters_(format) {
  if (const auto known = filters_of_chunks(dataset, format)) {
    filters_ = *known;
    if (fetch_chunks(dataset, chunk_shape(dataset))) return;
  }
  read_by_library(dataset);
}

// Returns false if the library should see to it: for chunks that were never written.
bool PackedRows::fetch_chunks(const H5::DataSet& dataset, const std::vector<hsize_t>& chunk) {
  block_rows_ = chunk[chunk.size() - 2];
  block_columns_ = chunk.back();
  const std::size_t most = filters_.most_packed(block_rows_ * block_columns_);
  std::vector<hsize_t> offset = selection_.matrix;
  offset.resize(chunk.size());
  hsize_t& row = offset[offset.size() - 2];
  hsize_t& column = offset.back();
  const hsize_t end = selection_.first + selection_.count;
  for (row = selection_.first / block_rows_ * block_rows_; row < end; row += block_rows_) {
    for (column = 0; column < selection_.dim; column += block_columns_) {
      hsize_t bytes = 0;
      const bool is_found =
          H5Dget_chunk_storage_size(dataset.getId(), offset.data(), &bytes) >= 0 && bytes > 0;
      if (!is_found && !holds_chunk(dataset, offset)) return false;
      if (!is_found || bytes > most) {
        throw H5::DataSetIException("H5Dget_chunk_storage_size", "the chunk is damaged");
      }
      Block& block = blocks_.emplace_back(Block{row, column, make_room(bytes)});
      if (H5Dread_chunk(dataset.getId(), H5P_DEFAULT, offset.data(), &block.packed.skipped,
                        block.packed.bytes.get()) < 0) {
        throw H5::DataSetIException("H5Dread_chunk", "the chunk cannot be read");
      }
    }
  }
  return true;
}

void PackedRows::read_by_library(const H5::DataSet& dataset) {
  blocks_.clear();
  std::vector<hsize_t> start = selection_.matrix;
  start.insert(start.end(), {selection_.first, 0});
  std::vector<hsize_t> size(selection_.matrix.size(), 1);
  size.insert(size.end(), {selection_.count, selection_.dim});
  const H5::DataSpace memory(static_cast<int>(size.size()), size.data());
  const H5::DataSpace file = dataset.getSpace();
  file.selectHyperslab(H5S_SELECT_SET, size.data(), start.data());
  // HDF5 converts half precision bit by bit: halves are read as they are.
  const NumberFormat native{.bytes = format_.bytes};
  const bool is_half = native.bytes == 2;
  filters_ = ChunkFilters(native);
  block_rows_ = selection_.count;
  block_columns_ = selection_.dim;
  Block& block = blocks_.emplace_back(
      Block{selection_.first, 0,
            make_room(block_rows_ * block_columns_ * static_cast<std::size_t>(native.bytes))});
  if (is_half) {
    dataset.read(block.packed.bytes.get(), half_type(), memory, file);
  } else {
    dataset.read(block.packed.bytes.get(), H5::PredType::NATIVE_FLOAT, memory, file);
  }
}

bool PackedRows::unpack(float* floats, Digest* digest) const {
  const std::size_t numbers = block_rows_ * block_columns_;
  const auto scratch = std::make_unique_for_overwrite<unsigned char[]>(
      numbers * static_cast<std::size_t>(format_.bytes));
  const bool in_order = block_columns_ >= selection_.dim;  // else blocks are parts of rows
  const bool is_sound = std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    const auto unpacked = filters_.unpack(block.packed, numbers, scratch.get());
    if (unpacked) copy_block(block, *unpacked, floats, in_order ? digest : nullptr);
    return unpacked.has_value();
  });
  if (is_sound && digest != nullptr && !in_order) {
    digest_numbers(floats, selection_.count * selection_.dim, format_.bytes, *digest);
  }
  return is_sound;
}

void PackedRows::copy_block(const Block& block, const StoredNumbers& numbers, float* floats,
                            Digest* digest) const {
  const hsize_t begin = std::max(block.row, selection_.first);
  const hsize_t end = std::min(block.row + block_rows_, selection_.first + selection_.count);
  const hsize_t columns = std::min(block_columns_, selection_.dim - block.column);
  const hsize_t first = (begin - block.row) * block_columns_;
  float* out = floats + (begin - selection_.first) * selection_.dim + block.column;
  if (block_columns_ == selection_.dim) {
    numbers.read(first, (end - begin) * columns, out, digest);
    return;
  }
  for (hsize_t row = 0; row < end - begin; ++row) {
    numbers.read(first + row * block_columns_, columns, out + row * selection_.dim, digest);
  }
}

}  // namespace kvsim
