// Evicting token j moves the outputs of all query heads h of its group by y_h (ô_h - v_j), so the
// layer's error E moves by Σ_h y_h (ô_h - v_j) W_h, and its square changes by
//   2 Σ_h y_h <E W_hᵀ, ô_h - v_j> + Σ_{a,b} y_a y_b (ô_a - v_j) W_a W_bᵀ (ô_b - v_j)ᵀ.
// Evictions of other heads of the layer change E, so the products with values are made each time.

#include <cmath>

#include "oracle/lookahead/eviction_cost.h"

namespace kvsim {
namespace {

std::vector<double> padded(const MatrixDouble& matrix, std::size_t stride) {
  std::vector<double> rows(static_cast<std::size_t>(matrix.rows()) * stride, 0);
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    const auto row = matrix.row(i);
    std::copy(row.begin(), row.end(), rows.begin() + i * static_cast<std::ptrdiff_t>(stride));
  }
  return rows;
}

/// The products of one step for a group of query heads. Vectors have the stride of values.
struct GroupStep {
  GroupStep(std::size_t heads, std::size_t stride, std::size_t columns)
      : cached(heads * stride),
        vectors((heads + heads * heads) * stride),
        products((heads + heads * heads) * columns),
        shares(heads * columns),
        change(columns) {}

  std::vector<double> cached;    // per head: ô
  std::vector<double> vectors;   // per head E Wᵀ, then per pair of heads W_a W_bᵀ ô_b
  std::vector<double> products;  // of these with all values
  std::vector<double> shares;    // per head and slot
  std::vector<double> change;    // per slot
};

class ProjectedCost final : public EvictionCost {
 public:
  ProjectedCost(std::shared_ptr<const HeadProjections> projections, const HeldTokens& held,
                std::size_t steps, std::shared_ptr<StepsBySlots> layer_error)
      : projections_(std::move(projections)),
        layer_error_(std::move(layer_error)),
        heads_(projections_->projection.size(), UpcomingOutputs(held, steps)),
        square_(heads_.size() * heads_.size() * held.capacity()),
        group_(heads_.size(), held.stride(), held.capacity()) {}

  void enter(const HeldTokens& held, const AttentionBlock& block, int first_row) override {
    std::vector<double> error(held.stride());
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      for (int row = first_row; row < block.num_steps; ++row) {
        heads_[head].enter(held, block, block.heads[head], row);
        heads_[head].error(block.first_step + row, error.data());
        move_layer_error(head, block.first_step + row, error);
      }
    }
    for (std::size_t slot = 0; slot < held.count(); ++slot) set_squares(held, slot);
  }

  void leave(const HeldTokens& held, std::size_t slot, int first, int last) override {
    std::vector<double> before(held.stride());
    std::vector<double> after(held.stride());
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      for (int step = first; step <= last; ++step) {
        if (heads_[head].weight(step)[slot] == 0) continue;
        heads_[head].error(step, before.data());
        heads_[head].leave(held, step, slot);
        heads_[head].error(step, after.data());
        add_scaled_doubles(-1, before.data(), before.size(), after.data());
        move_layer_error(head, step, after);
      }
      heads_[head].remove(slot, held.count());
    }
    for (std::size_t pair = 0; pair < heads_.size() * heads_.size(); ++pair) {
      double* squares = square_.data() + pair * held.capacity();
      squares[slot] = squares[held.count() - 1];
    }
  }

  void add_changes(const HeldTokens& held, int first, int last, double* change) override {
    const std::size_t columns = padded_to_doubles(held.count());
    for (int step = first; step <= last; ++step) {
      set_vectors(step);
      const std::size_t vectors = heads_.size() + heads_.size() * heads_.size();
      multiply_rows({group_.vectors.data(), vectors, held.stride()}, held.values(),
                    group_.products.data(), held.capacity());
      const bool has_dominant = set_changes(step, columns);
      if (has_dominant) set_dominant(held, step);
      add_scaled_doubles(1, group_.change.data(), columns, change);
    }
  }

  double loss(int first, int last) const override {
    double sum = 0;
    for (int step = first; step <= last; ++step) {
      const double* error = layer_error_->row(step);
      sum += product(error, error, projections_->hidden);
    }
    return sum;
  }

  std::unique_ptr<EvictionCost> copy() const override { return nullptr; }

 private:
  double* cached(std::size_t head) { return group_.cached.data() + head * projections_->stride; }
  double* pulled(std::size_t head) { return group_.vectors.data() + head * projections_->stride; }
  double* image(std::size_t a, std::size_t b) { return pulled(index(a, b)); }
  std::size_t index(std::size_t a, std::size_t b) const { return heads_.size() * (a + 1) + b; }
  double* share(std::size_t head) { return group_.shares.data() + head * group_.change.size(); }
  const double* products(std::size_t vector) const {
    return group_.products.data() + vector * group_.change.size();
  }

  // Adds `moved` W to the layer's error.
  void move_layer_error(std::size_t head, int step, const std::vector<double>& moved) {
    std::vector<double> image(projections_->hidden);
    sum_rows(projections_->of(head), moved.data(), image.data());
    add_scaled_doubles(1, image.data(), image.size(), layer_error_->row(step));
  }

  // v_j W_a W_bᵀ v_jᵀ
  void set_squares(const HeldTokens& held, std::size_t slot) {
    std::vector<double> image(held.stride());
    for (std::size_t a = 0; a < heads_.size(); ++a) {
      for (std::size_t b = 0; b < heads_.size(); ++b) {
        multiply_rows({held.value(slot), 1, held.stride()}, projections_->between(a, b),
                      image.data(), 0);
        square_[(a * heads_.size() + b) * held.capacity() + slot] =
            product(image.data(), held.value(slot), held.stride());
      }
    }
  }

  void set_vectors(int step) {
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      heads_[head].cached(step, cached(head));
      multiply_rows({layer_error_->row(step), 1, projections_->hidden}, projections_->of(head),
                    pulled(head), 0);
    }
    for (std::size_t a = 0; a < heads_.size(); ++a) {
      for (std::size_t b = 0; b < heads_.size(); ++b) {
        multiply_rows({cached(b), 1, projections_->stride}, projections_->between(a, b),
                      image(a, b), 0);
      }
    }
  }

  // Returns whether a token is dominant in some head. Its changes are wrong.
  bool set_changes(int step, std::size_t columns) {
    bool has_dominant = false;
    double* change = group_.change.data();
    std::fill_n(change, columns, 0);
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      std::fill_n(share(head), columns, 0);
      if (heads_[head].weight_sum(step) <= 0) continue;
      has_dominant |= set_moved_shares(heads_[head].weight_sum(step), heads_[head].weight(step),
                                       columns, share(head));
      add_linear_changes(share(head), product(pulled(head), cached(head), projections_->stride),
                         products(head), columns, change);
    }
    for (std::size_t a = 0; a < heads_.size(); ++a) {
      for (std::size_t b = 0; b < heads_.size(); ++b) {
        const double constant = product(image(a, b), cached(a), projections_->stride);
        const double* squares = square_.data() + (a * heads_.size() + b) * group_.change.size();
        add_quadratic_changes(constant, {share(a), share(b), products(index(a, b)), squares},
                              columns, change);
      }
    }
    return has_dominant;
  }

  void set_dominant(const HeldTokens& held, int step) {
    std::vector<bool> is_known(held.count(), false);
    for (const UpcomingOutputs& head : heads_) {
      for (const std::size_t slot : head.dominant(step)) {
        if (!is_known[slot]) group_.change[slot] = exact_change(held, step, slot);
        is_known[slot] = true;
      }
    }
  }

  double exact_change(const HeldTokens& held, int step, std::size_t slot) const {
    const double* present = layer_error_->row(step);
    std::vector<double> error(present, present + projections_->hidden);
    std::vector<double> image(projections_->hidden);
    std::vector<double> before(held.stride());
    std::vector<double> after(held.stride());
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      heads_[head].error(step, before.data());
      heads_[head].error_without(held, step, slot, after.data());
      add_scaled_doubles(-1, before.data(), before.size(), after.data());
      sum_rows(projections_->of(head), after.data(), image.data());
      add_scaled_doubles(1, image.data(), image.size(), error.data());
    }
    return product(error.data(), error.data(), error.size()) -
           product(present, present, error.size());
  }

  std::shared_ptr<const HeadProjections> projections_;
  std::shared_ptr<StepsBySlots> layer_error_;
  std::vector<UpcomingOutputs> heads_;
  std::vector<double> square_;  // per pair of heads and slot: v_j W_a W_bᵀ v_jᵀ
  GroupStep group_;
};

}  // namespace

HeadProjections::HeadProjections(const Unit& unit)
    : dims(static_cast<std::size_t>(unit.value.cols())),
      stride(padded_to_doubles(dims)),
      hidden(padded_to_doubles(static_cast<std::size_t>(unit.output_projection.front().cols()))) {
  for (const Matrix& matrix : unit.output_projection) {
    projection.push_back(padded(matrix.cast<double>(), hidden));
  }
  for (const Matrix& a : unit.output_projection) {
    for (const Matrix& b : unit.output_projection) {
      product.push_back(padded(a.cast<double>() * b.cast<double>().transpose(), stride));
    }
  }
}

std::unique_ptr<EvictionCost> make_projected_cost(
    std::shared_ptr<const HeadProjections> projections, const HeldTokens& held, std::size_t steps,
    std::shared_ptr<StepsBySlots> layer_error) {
  return std::make_unique<ProjectedCost>(std::move(projections), held, steps,
                                         std::move(layer_error));
}

}  // namespace kvsim
