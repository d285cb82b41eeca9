#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "traces/unit.h"

namespace kvsim::python {

/// What Python gives, as float32.
template <int axes>
using Numbers =
    nanobind::ndarray<const float, nanobind::ndim<axes>, nanobind::c_contig, nanobind::device::cpu>;
using Heads = Numbers<3>;

/// A matrix [rows, columns] per head.
inline std::vector<Matrix> matrices_of(const Heads& heads) {
  const auto rows = static_cast<Eigen::Index>(heads.shape(1));
  const auto columns = static_cast<Eigen::Index>(heads.shape(2));
  std::vector<Matrix> matrices;
  for (std::size_t head = 0; head < heads.shape(0); ++head) {
    const float* numbers = heads.data() + static_cast<Eigen::Index>(head) * rows * columns;
    matrices.emplace_back(Eigen::Map<const Matrix>(numbers, rows, columns));
  }
  return matrices;
}

inline Matrix matrix_of(const nanobind::handle& given) {
  const auto numbers = nanobind::cast<Numbers<2>>(given);
  return Eigen::Map<const Matrix>(numbers.data(), static_cast<Eigen::Index>(numbers.shape(0)),
                                  static_cast<Eigen::Index>(numbers.shape(1)));
}

/// Selected tokens, -1 behind: [tokens, K].
using Selections = nanobind::ndarray<const std::int32_t, nanobind::ndim<2>, nanobind::c_contig,
                                     nanobind::device::cpu>;

/// Null for None; of steps from `first_step` on. Throws UsageError, which begins with `what`.
std::shared_ptr<const SelectedTokens> selected_of(const nanobind::handle& given,
                                                  const std::string& what, int first_step = 0);

/// A read-only numpy array over numbers of `owner`, which it keeps.
template <class T, class Owner>
nanobind::object array_over(const T* numbers, const std::vector<std::size_t>& shape, Owner owner) {
  auto* kept = new Owner(std::move(owner));
  const nanobind::capsule keeper(
      kept, [](void* pointer) noexcept { delete static_cast<Owner*>(pointer); });
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, const T>(numbers, shape.size(), shape.data(), keeper));
}

/// [length]. Moving a vector keeps its memory.
template <class T>
nanobind::object array_of(std::vector<T> numbers) {
  const T* data = numbers.data();
  const std::vector<std::size_t> shape{numbers.size()};
  return array_over(data, shape, std::move(numbers));
}

/// [rows, columns]; so does moving a matrix.
inline nanobind::object array_of(Matrix matrix) {
  const float* data = matrix.data();
  const std::vector<std::size_t> shape{static_cast<std::size_t>(matrix.rows()),
                                       static_cast<std::size_t>(matrix.cols())};
  return array_over(data, shape, std::move(matrix));
}

/// [heads, rows, columns] of matrices of one shape.
inline nanobind::object array_of(const std::vector<Matrix>& heads) {
  std::vector<float> numbers;
  for (const Matrix& head : heads) {
    numbers.insert(numbers.end(), head.data(), head.data() + head.size());
  }
  const float* data = numbers.data();
  const std::vector<std::size_t> shape{heads.size(), static_cast<std::size_t>(heads.front().rows()),
                                       static_cast<std::size_t>(heads.front().cols())};
  return array_over(data, shape, std::move(numbers));
}

/// [samples, heads, rows, columns] of matrices of one shape.
inline nanobind::object array_of(const std::vector<std::vector<Matrix>>& samples) {
  std::vector<float> numbers;
  for (const std::vector<Matrix>& heads : samples) {
    for (const Matrix& head : heads) {
      numbers.insert(numbers.end(), head.data(), head.data() + head.size());
    }
  }
  const float* data = numbers.data();
  const Matrix& first = samples.front().front();
  const std::vector<std::size_t> shape{samples.size(), samples.front().size(),
                                       static_cast<std::size_t>(first.rows()),
                                       static_cast<std::size_t>(first.cols())};
  return array_over(data, shape, std::move(numbers));
}

/// The rows of a selection, or None.
nanobind::object array_or_none(const std::shared_ptr<const SelectedTokens>& selected);

/// None for nothing.
template <class T>
nanobind::object array_or_none(std::vector<T> parts) {
  return parts.empty() ? nanobind::none() : array_of(std::move(parts));
}

}  // namespace kvsim::python
