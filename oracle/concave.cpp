#include "oracle/concave.h"

#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

template <class Function>
double sum_of_losses(Function h, const float* kept, const float* lost, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    const float all = std::max(kept[i], 0.0F);
    sum += h(all) - h(std::max(all - lost[i], 0.0F));
  }
  return sum;
}

}  // namespace

Concave parse_concave(const std::string& name) {
  if (name == "identity") return Concave::identity;
  return name == "sqrt" ? Concave::sqrt : Concave::log1p;
}

double total_loss(Concave h, const float* kept, const float* lost, int count) {
  switch (h) {
    case Concave::sqrt:
      return sum_of_losses([](float x) { return std::sqrt(x); }, kept, lost, count);
    case Concave::log1p:
      return sum_of_losses([](float x) { return std::log1p(x); }, kept, lost, count);
    case Concave::identity:
      break;
  }
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += lost[i];
  return sum;
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

}  // namespace kvsim
