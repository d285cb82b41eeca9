#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "policies/interface/policy.h"

namespace kvsim::python {

/// Memory for one number or row of numbers per token, and the numpy array over its first rows. The
/// array is made anew only if their number changes; the memory outlives arrays over it.
template <class T>
class TokenArray {
 public:
  /// Room for `rows` rows of `dim` numbers; 0: of one number, and the array has one axis.
  std::remove_const_t<T>* reserve(std::size_t rows, std::size_t dim = 0);

  /// The array over the first `rows` rows: of the last reserve(), or fewer.
  const nanobind::object& first(std::size_t rows);

 private:
  std::remove_const_t<T>* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t rows_ = 0;
  nanobind::object whole_;
  nanobind::object view_;
};

/// A Step as Python sees it: arrays that are filled when they are first read in a step. They hold
/// what the step shows, never a later row, and are the same memory at the next step.
class StepView {
 public:
  explicit StepView(const Rules& rules) : rules_(rules) {}

  /// Shows a step as long as it lives; without one, reading raises RuntimeError.
  class Shown {
   public:
    Shown(StepView& view, const Step& step) : view_(view) { view_.show(&step); }
    ~Shown() { view_.show(nullptr); }
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;

   private:
    StepView& view_;
  };

  int index() const { return shown().index; }
  int overflow() const { return shown().overflow; }
  const nanobind::object& tokens();
  const nanobind::object& attention();
  const nanobind::object& full_attention();
  const nanobind::object& keys();
  const nanobind::object& values();
  const nanobind::object& queries();
  const nanobind::object& kinds();
  const nanobind::object& selected();

 private:
  /// An array, and the step for which it was filled.
  template <class T>
  struct Field {
    TokenArray<const T> array;
    std::uint64_t filled = 0;
  };

  void show(const Step* step);
  const Step& shown() const;
  void require(bool asked_for, const char* field, const char* rule) const;
  template <class T, class U>
  const nanobind::object& copy(Field<T>& field, std::span<const U> from);
  const nanobind::object& gather(Field<float>& field, const ResidentVectors& vectors);

  Rules rules_;
  const Step* step_ = nullptr;
  std::uint64_t count_ = 0;  // of the steps shown
  Field<std::int32_t> tokens_;
  Field<float> attention_;
  Field<float> full_attention_;
  Field<float> keys_;
  Field<float> values_;
  Field<float> queries_;
  Field<std::uint8_t> kinds_;
  Field<std::int32_t> selected_;
};

}  // namespace kvsim::python
