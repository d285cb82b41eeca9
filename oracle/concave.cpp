#include "oracle/concave.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

// Sums and products run in lanes: a compiler must not reorder the terms of a single one, which
// would rule out vector instructions.
constexpr int kLanes = 4;

template <class Term>
double sum(int count, Term term) {
  double lane[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lane[k] += term(i + k);
  }
  for (; i < count; ++i) lane[0] += term(i);
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// The sum of the logarithms of factors in [1/8, 1], taken of products that cannot underflow.
template <class Factor>
double sum_of_logarithms(int count, Factor factor) {
  constexpr int kFactors = 256;
  double total = 0;
  for (int begin = 0; begin < count; begin += kFactors) {
    const int end = std::min(count, begin + kFactors);
    double lane[kLanes] = {1, 1, 1, 1};
    int i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lane[k] *= factor(i + k);
    }
    for (; i < end; ++i) lane[0] *= factor(i);
    total += std::log((lane[0] * lane[1]) * (lane[2] * lane[3]));
  }
  return total;
}

// Uses Eigen's square root, because std::sqrt sets errno, which prevents the vector instruction.
double sum_of_root_losses(const double* kept, const double* root, const float* lost, int count) {
  constexpr int kBlock = 128;
  double rest[kBlock];
  double total = 0;
  for (int begin = 0; begin < count; begin += kBlock) {
    const int size = std::min(kBlock, count - begin);
    for (int i = 0; i < size; ++i) rest[i] = kept[begin + i] - double{lost[begin + i]};
    total += (Eigen::Map<const Eigen::ArrayXd>(root + begin, size) -
              Eigen::Map<const Eigen::ArrayXd>(rest, size).max(0).sqrt())
                 .sum();
  }
  return total;
}

}  // namespace

Concave parse_concave(const std::string& name) {
  if (name == "identity") return Concave::identity;
  return name == "sqrt" ? Concave::sqrt : Concave::log1p;
}

double value(Concave h, double x) {
  switch (h) {
    case Concave::sqrt:
      return std::sqrt(x);
    case Concave::log1p:
      return std::log1p(x);
    case Concave::identity:
      break;
  }
  return x;
}

double prepare(Concave h, double kept) {
  return h == Concave::log1p ? 1 / (1 + kept) : value(h, std::max(kept, 0.0));
}

double total_loss(Concave h, const double* kept, const double* prepared, const float* lost,
                  int count) {
  switch (h) {
    case Concave::sqrt:
      return sum_of_root_losses(kept, prepared, lost, count);
    case Concave::log1p:  // log(1 + kept) - log(1 + kept - lost)
      return -sum_of_logarithms(count, [=](int i) { return 1 - double{lost[i]} * prepared[i]; });
    case Concave::identity:
      break;
  }
  return sum(count, [=](int i) { return double{lost[i]}; });
}

}  // namespace kvsim
