#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// An array of an .npy file, little-endian and in C order.
struct NpyArray {
  std::string type;  ///< as numpy writes it: "<f4"
  std::vector<std::size_t> shape;
  std::string_view data;  ///< as many bytes as type and shape say

  /// All numbers. `Number` has to be as large as the type says.
  template <class Number>
  std::vector<Number> numbers() const {
    std::vector<Number> all(data.size() / sizeof(Number));
    if (!all.empty()) std::memcpy(all.data(), data.data(), all.size() * sizeof(Number));
    return all;
  }
};

/// A type of numpy and its name in words.
struct NpyType {
  std::string_view type;  ///< "<f4"
  std::string_view name;  ///< "float32"
  std::size_t bytes = 0;
};

inline constexpr NpyType kFloat32{"<f4", "float32", 4};
inline constexpr NpyType kFloat64{"<f8", "float64", 8};
inline constexpr NpyType kInt32{"<i4", "int32", 4};
inline constexpr NpyType kUint8{"|u1", "uint8", 1};

/// The array of an .npy file, over `bytes`. Throws DataError, which names `place` and ends with
/// `fix`, for bytes that are something else, or an array of none of `types`.
NpyArray read_npy(const std::string& place, std::string_view bytes, std::span<const NpyType> types,
                  const std::string& fix);

}  // namespace kvsim
