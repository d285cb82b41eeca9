#include "python/engine/step_view.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <stdexcept>

namespace nb = nanobind;

namespace kvsim::python {

template <class T>
std::remove_const_t<T>* TokenArray<T>::reserve(std::size_t rows, std::size_t dim) {
  if (rows <= capacity_) return data_;
  using Number = std::remove_const_t<T>;
  capacity_ = std::max(rows, 2 * capacity_);
  const std::size_t count = capacity_ * std::max<std::size_t>(dim, 1);
  data_ = new Number[count]();
  const nb::capsule owner(data_, [](void* data) noexcept { delete[] static_cast<Number*>(data); });
  const std::size_t shape[] = {capacity_, dim};
  const std::size_t axes = dim == 0 ? 1 : 2;
  whole_ = nb::cast(nb::ndarray<nb::numpy, T, nb::c_contig>(data_, axes, shape, owner));
  view_ = {};
  return data_;
}

template <class T>
const nb::object& TokenArray<T>::first(std::size_t rows) {
  if (rows != rows_ || !view_.is_valid()) {
    view_ = whole_[nb::slice(nb::int_(0), nb::int_(rows), nb::int_(1))];
    rows_ = rows;
  }
  return view_;
}

template class TokenArray<double>;
template class TokenArray<const float>;

void StepView::show(const Step* step) {
  step_ = step;
  ++count_;
}

const Step& StepView::shown() const {
  if (step_ == nullptr) {
    throw std::runtime_error("the step is over: read it in update, and copy what is to stay");
  }
  return *step_;
}

void StepView::require(bool asked_for, const char* field, const char* rule) const {
  if (asked_for) return;
  throw nb::attribute_error(
      fmt::format("step.{}: the policy's rules do not ask for it; write Rules({}=True)", field,
                  rule)
          .c_str());
}

template <class T, class U>
const nb::object& StepView::copy(Field<T>& field, std::span<const U> from) {
  if (field.filled != count_) {
    T* const to = field.array.reserve(from.size());
    std::transform(from.begin(), from.end(), to, [](U value) { return static_cast<T>(value); });
    field.filled = count_;
  }
  return field.array.first(from.size());
}

const nb::object& StepView::gather(Field<float>& field, const ResidentVectors& vectors) {
  const std::size_t rows = shown().tokens.size();
  if (field.filled != count_) {
    float* to = field.array.reserve(rows, vectors.dim());
    for (std::size_t slot = 0; slot < rows; ++slot) {
      to = std::ranges::copy(vectors[slot], to).out;
    }
    field.filled = count_;
  }
  return field.array.first(rows);
}

const nb::object& StepView::tokens() { return copy(tokens_, shown().tokens); }

const nb::object& StepView::attention() { return copy(attention_, shown().attention); }

const nb::object& StepView::full_attention() {
  require(rules_.sees_full_attention, "full_attention", "sees_full_attention");
  return copy(full_attention_, shown().full_attention);
}

const nb::object& StepView::keys() { return gather(keys_, shown().keys); }

const nb::object& StepView::values() {
  require(rules_.sees_values, "values", "sees_values");
  return gather(values_, shown().values);
}

const nb::object& StepView::queries() {
  require(rules_.sees_queries, "queries", "sees_queries");
  const auto queries = shown().queries;
  if (queries_.filled != count_) {
    float* to = queries_.array.reserve(queries.size(), queries.front().size());
    for (const std::span<const float> query : queries) to = std::ranges::copy(query, to).out;
    queries_.filled = count_;
  }
  return queries_.array.first(queries.size());
}

const nb::object& StepView::selected() { return copy(selected_, shown().selected); }

const nb::object& StepView::kinds() {
  require(rules_.sees_kinds, "kinds", "sees_kinds");
  return copy(kinds_, shown().kinds);
}

}  // namespace kvsim::python
