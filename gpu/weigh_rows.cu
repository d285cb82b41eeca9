#include <cmath>
#include <cstddef>

#include "gpu/status.h"
#include "gpu/weigh_rows.h"

namespace kvsim::gpu {
namespace {

constexpr int kThreads = 256;  // a power of two, as reduce() halves it

// Combines one item per thread of the block; every thread gets the result. The order is fixed, so
// that a sum is the same on every run.
template <class T, class Combine>
__device__ T reduce(T mine, Combine combine) {
  __shared__ T items[kThreads];
  items[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      items[threadIdx.x] = combine(items[threadIdx.x], items[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const T result = items[0];
  __syncthreads();  // before the next use of items
  return result;
}

// One thread block per row. A thread meets the same tokens in each of the three loops, so it reads
// back only what it wrote itself.
__global__ void weigh_row(AttentionRows rows) {
  const int row = static_cast<int>(blockIdx.x);
  const int step = rows.first_step + row;
  const int begin = step - rows.sliding_window + 1;  // may be negative: all are visible
  const int width = rows.first_step + rows.num_steps;
  const auto offset = static_cast<std::size_t>(row) * width;
  float* logit = rows.logit + offset;
  float* weight = rows.weight + offset;
  double* wide_weight = rows.wide_weight + offset;
  const auto is_visible = [=](int token) { return begin <= token && token <= step; };

  float largest = -INFINITY;
  for (int token = threadIdx.x; token < width; token += kThreads) {
    if (rows.softcap > 0) logit[token] = rows.softcap * tanhf(logit[token] / rows.softcap);
    if (is_visible(token)) largest = fmaxf(largest, logit[token]);
  }
  largest = reduce(largest, [](float a, float b) { return fmaxf(a, b); });

  double sum = 0;
  for (int token = threadIdx.x; token < width; token += kThreads) {
    weight[token] = is_visible(token) ? expf(logit[token] - largest) : 0;
    wide_weight[token] = weight[token];
    sum += wide_weight[token];
  }
  sum = reduce(sum, [](double a, double b) { return a + b; });

  int num_pivotal = 0;
  for (int token = threadIdx.x; token < width; token += kThreads) {
    num_pivotal += wide_weight[token] * (step + 1) > sum;  // is_pivotal(), on the device
  }
  num_pivotal = reduce(num_pivotal, [](int a, int b) { return a + b; });

  if (threadIdx.x == 0) {
    rows.weight_sum[row] = sum;
    rows.num_pivotal[row] = num_pivotal;
  }
}

}  // namespace

void weigh_rows(const AttentionRows& rows, cudaStream_t stream) {
  weigh_row<<<rows.num_steps, kThreads, 0, stream>>>(rows);
  check(cudaGetLastError(), "launch of weigh_row");
}

cudaError_t weigh_rows_status() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, weigh_row);
}

}  // namespace kvsim::gpu
