#pragma once

#include "gpu/kernels/sum_values.h"

namespace kvsim::gpu {

/// sum += a * b of matrices [16, 16] and [16, 8] in fp64, as eight products of [8, 4] and [4, 8]
/// matrices, for chips whose matrix units take no larger ones. The elements of a lane are those of
/// the large product: see multiply_add() in gpu/cuda/cuda_threads.cuh.
template <class Threads>
KVSIM_DEVICE void multiply_in_parts(double (&sum)[4], const double (&a)[8], const double (&b)[4]) {
  KVSIM_UNROLL
  for (int term = 0; term < 4; ++term) {
    KVSIM_UNROLL
    for (int row = 0; row < 2; ++row) {
      Threads::multiply_add_part(sum[2 * row], sum[2 * row + 1], a[2 * term + row], b[term]);
    }
  }
}

/// A tile [kTileRows, kTileDims] of a matrix product in fp64, for a thread block of `num_threads`
/// threads. Each warp computes 16 rows of 32 dimensions. On `Threads` see ThreadBlock.
template <class Threads, int num_threads>
class ProductTile {
 public:
  KVSIM_DEVICE ProductTile() : panels_(Threads::template shared<Panels>()) {}

  /// Adds weight(row, entry) * factor(row, entry, last_without(entry)) * value(entry, dim) over the
  /// entries of all terms; SumOperands declares these members. All threads call it with the same
  /// operands, which nobody may change meanwhile.
  ///
  /// While a panel of kTileTerms terms is multiplied, the weights and values of the next one and
  /// the entries of the one after come from memory into registers. A thread touches them after the
  /// product, as it would wait for them before. With two panels in shared memory one barrier per
  /// panel is enough: a thread overwrites a panel after a barrier that all threads reach after
  /// their last use of it.
  template <class Operands>
  KVSIM_DEVICE void add_products(const Operands& operands) {
    const int num_terms = operands.num_terms();
    if (num_terms == 0) return;
    Fetched fetched = fetch(operands, entries(operands, 0));
    Entries next = entries(operands, kTileTerms);
    for (int first = 0; first < num_terms; first += kTileTerms) {
      turn_ = 1 - turn_;
      Panel& panel = panels_.items[turn_];
      put(operands, first, fetched, panel);
      Threads::synchronize();
      fetched = fetch(operands, next);
      next = entries(operands, first + 2 * kTileTerms);
      multiply_add(panel);
    }
  }

  /// visit(row, dim, sum) for all elements, each on one thread.
  template <class Visit>
  KVSIM_DEVICE void for_each(Visit visit) {
    KVSIM_UNROLL
    for (int part = 0; part < kDimParts; ++part) {
      KVSIM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = first_row() + lane() / 4 + (i < 2 ? 0 : 8);
        const int dim = first_dim() + 8 * part + 2 * (lane() % 4) + i % 2;
        visit(row, dim, sum_[part][i]);
      }
    }
  }

 private:
  static constexpr int kWarpRows = 16;
  static constexpr int kWarpDims = 32;
  static constexpr int kDimParts = kWarpDims / 8;
  static constexpr int kRowWarps = kTileRows / kWarpRows;
  static constexpr int kOwnLeft = kTileRows * kTileTerms / num_threads;
  static constexpr int kOwnRight = kTileTerms * kTileDims / num_threads;
  static_assert(kTileTerms == 16);
  static_assert(kRowWarps * (kTileDims / kWarpDims) * 32 == num_threads);
  static_assert(num_threads % kTileTerms == 0 && num_threads % kTileDims == 0);

  /// Operands of kTileTerms terms. Padded, so that lanes that read at the same time read from
  /// different banks.
  struct Panel {
    double left[kTileRows][kTileTerms + 4];
    double right[kTileTerms][kTileDims + 4];
  };

  struct Panels {
    Panel items[2];
  };

  /// The entries of the terms of which a thread brings elements: its weights are all of one term.
  struct Entries {
    std::int32_t left;
    std::int32_t right[kOwnRight];
  };

  /// The elements of a panel that one thread brings, and the factors to come.
  struct Fetched {
    std::int32_t entry;
    std::int32_t last_without;
    float left[kOwnLeft];
    float right[kOwnRight];
  };

  KVSIM_DEVICE static int own_term() { return Threads::index() % kTileTerms; }
  KVSIM_DEVICE static int own_row(int i) {
    return (Threads::index() + i * num_threads) / kTileTerms;
  }
  KVSIM_DEVICE static int own_right_term(int i) {
    return (Threads::index() + i * num_threads) / kTileDims;
  }
  KVSIM_DEVICE static int own_dim() { return Threads::index() % kTileDims; }

  // Of terms from `first` on; beyond the last one they repeat it.
  template <class Operands>
  KVSIM_DEVICE static Entries entries(const Operands& operands, int first) {
    const int last = operands.num_terms() - 1;
    const auto entry = [&](int term) { return operands.entry(term < last ? term : last); };
    Entries found;
    found.left = entry(first + own_term());
    KVSIM_UNROLL
    for (int i = 0; i < kOwnRight; ++i) found.right[i] = entry(first + own_right_term(i));
    return found;
  }

  template <class Operands>
  KVSIM_DEVICE static Fetched fetch(const Operands& operands, const Entries& of_terms) {
    Fetched fetched;
    fetched.entry = of_terms.left;
    fetched.last_without = operands.last_without(of_terms.left);
    KVSIM_UNROLL
    for (int i = 0; i < kOwnLeft; ++i) {
      fetched.left[i] = operands.weight(own_row(i), of_terms.left);
    }
    KVSIM_UNROLL
    for (int i = 0; i < kOwnRight; ++i) {
      fetched.right[i] = operands.value(of_terms.right[i], own_dim());
    }
    return fetched;
  }

  template <class Operands>
  KVSIM_DEVICE static void put(const Operands& operands, int first, const Fetched& fetched,
                               Panel& panel) {
    const bool is_term = first + own_term() < operands.num_terms();
    KVSIM_UNROLL
    for (int i = 0; i < kOwnLeft; ++i) {
      const float factor = operands.factor(own_row(i), fetched.entry, fetched.last_without);
      panel.left[own_row(i)][own_term()] = is_term ? factor * fetched.left[i] : 0;
    }
    KVSIM_UNROLL
    for (int i = 0; i < kOwnRight; ++i)
      panel.right[own_right_term(i)][own_dim()] = fetched.right[i];
  }

  KVSIM_DEVICE void multiply_add(const Panel& panel) {
    double a[8];
    KVSIM_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int row = first_row() + lane() / 4 + 8 * (i % 2);
      a[i] = panel.left[row][lane() % 4 + 4 * (i / 2)];
    }
    KVSIM_UNROLL
    for (int part = 0; part < kDimParts; ++part) {
      double b[4];
      KVSIM_UNROLL
      for (int i = 0; i < 4; ++i) {
        b[i] = panel.right[lane() % 4 + 4 * i][first_dim() + 8 * part + lane() / 4];
      }
      Threads::multiply_add(sum_[part], a, b);
    }
  }

  KVSIM_DEVICE static int lane() { return Threads::index() % 32; }
  KVSIM_DEVICE static int first_row() { return Threads::index() / 32 % kRowWarps * kWarpRows; }
  KVSIM_DEVICE static int first_dim() { return Threads::index() / 32 / kRowWarps * kWarpDims; }

  Panels& panels_;
  int turn_ = 0;
  double sum_[kDimParts][4] = {};
};

}  // namespace kvsim::gpu
