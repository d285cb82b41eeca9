#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvsim {

/// Quantises numbers to codes of `bits` bits between their least and their largest, and restores
/// them, with the arithmetic of KIVI's program (quant/new_pack.py; gemv_cuda.cu restores): each
/// operation is rounded to the precision of `element_bytes`, 2 or 4, but for the restored numbers,
/// which are floats. Unlike Quantization::round() it does not see to it that codes reach both ends.
void round_min_max(std::span<float> numbers, int bits, int element_bytes);

/// The same for each run of `group` neighbouring numbers; the last run may be shorter.
void round_min_max(std::span<float> numbers, int group, int bits, int element_bytes);

/// The bytes of `count` codes of `bits` bits, packed.
std::size_t bytes_of_codes(std::size_t count, int bits);

/// The bytes of a vector of `dim` numbers whose runs of `group` have a least number and a step.
std::size_t bytes_of_min_max(std::size_t dim, int group, int bits, int element_bytes);

}  // namespace kvsim
