#pragma once

#include <cmath>

#include "traces/unit.h"

namespace kvsim::traces_test {

/// [n, n] logits of a query head, those of the future included, in plain double precision.
inline Eigen::MatrixXd logits(const Unit& unit, int member) {
  return static_cast<double>(unit.scale) * unit.query[member].cast<double>() *
         unit.key.cast<double>().transpose();
}

/// [n, n] causal softmax of the logits, within chunks and with a sink if there are any.
inline Eigen::MatrixXd attention(const Unit& unit, int member) {
  Eigen::MatrixXd weight = logits(unit, member);
  for (Eigen::Index step = 0; step < weight.rows(); ++step) {
    double sum = std::exp(double{unit.sink(member)});
    const Eigen::Index chunk = unit.attention_chunk.value_or(static_cast<int>(weight.cols()));
    for (Eigen::Index token = 0; token < weight.cols(); ++token) {
      const bool is_visible = token <= step && token / chunk == step / chunk;
      weight(step, token) = is_visible ? std::exp(weight(step, token)) : 0;
      sum += weight(step, token);
    }
    weight.row(step) /= sum;
  }
  return weight;
}

}  // namespace kvsim::traces_test
