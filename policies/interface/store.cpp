#include "policies/interface/store.h"

namespace kvsim {
namespace {

std::size_t first_of(std::int32_t token, int dim) {
  return static_cast<std::size_t>(token) * static_cast<std::size_t>(dim);
}

}  // namespace

void Store::admit(std::span<const float> key, std::span<const float> value) {
  keys_.insert(keys_.end(), key.begin(), key.end());
  values_.insert(values_.end(), value.begin(), value.end());
}

std::span<float> Store::key_row(std::int32_t token) {
  return std::span(keys_).subspan(first_of(token, shape_.head_dim),
                                  static_cast<std::size_t>(shape_.head_dim));
}

std::span<float> Store::value_row(std::int32_t token) {
  return std::span(values_).subspan(first_of(token, shape_.value_dim),
                                    static_cast<std::size_t>(shape_.value_dim));
}

std::span<const float> Store::key_row(std::int32_t token) const {
  return std::span(keys_).subspan(first_of(token, shape_.head_dim),
                                  static_cast<std::size_t>(shape_.head_dim));
}

std::span<const float> Store::value_row(std::int32_t token) const {
  return std::span(values_).subspan(first_of(token, shape_.value_dim),
                                    static_cast<std::size_t>(shape_.value_dim));
}

}  // namespace kvsim
