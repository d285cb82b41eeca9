#pragma once

#include <cmath>

#include "gpu/kernels/attended.h"
#include "sim/attention/pivotal.h"

namespace kvsim::gpu {

/// Turns the products of one query with the keys into logits and attention weights: softmax without
/// its division, weights in fp32 and their sum in fp64. Needs no barrier between its loops, as each
/// thread has the same tokens in all of them.
/// CPU counterpart: CpuPass in sim/attention/attention.cpp.
template <class Block>
KVSIM_DEVICE void weigh_row(Block& block, const Batch& batch, int index) {
  const int unit = index / batch.rows();
  const int row = index % batch.rows();
  const UnitTask task = batch.units[unit];
  const int step = batch.first_step + row / batch.shape.group_size;
  const int begin = batch.first_visible(unit, step);
  const std::size_t place = batch.block_row(unit, row);
  float* logit = batch.logit + place * batch.shape.num_tokens;
  float* weight = batch.weight + place * batch.shape.num_tokens;

  const float sink = batch.sink_of(unit, row);
  const float largest_of_tokens = block.reduce(
      batch.width(), -INFINITY,
      [&](int token) {
        float scaled = task.scale * logit[token];
        if (task.softcap > 0) scaled = task.softcap * std::tanh(scaled / task.softcap);
        logit[token] = scaled;
        return begin <= token && token <= step ? scaled : -INFINITY;
      },
      Larger());
  const float largest = Larger()(largest_of_tokens, sink);
  const double sink_weight = weight_of_sink(sink, largest);
  const double token_sum = block.reduce(
      batch.width(), 0.0,
      [&](int token) {
        const bool is_visible = begin <= token && token <= step;
        weight[token] = is_visible ? std::exp(logit[token] - largest) : 0.0F;
        return static_cast<double>(weight[token]);
      },
      Sum());
  const double sum = token_sum + sink_weight;
  const int num_pivotal = block.reduce(
      batch.width(), 0,
      [&](int token) { return static_cast<int>(is_pivotal(weight[token], sum, step)); }, Sum());
  block.once([&] {
    batch.sink_weight[place] = sink_weight;
    batch.weight_sum[place] = sum;
    batch.num_pivotal[batch.text_row(unit, row)] = num_pivotal;
  });
}

}  // namespace kvsim::gpu
