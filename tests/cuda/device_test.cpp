#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "gpu/batch_replay.h"
#include "gpu/cuda/cuda_device.h"
#include "gpu/cuda/cuda_resources.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/stub/stub.h"
#include "tests/support/compare.h"
#include "tests/support/units.h"

namespace kvsim::cuda_test::device_test {

using cuda_stub::Live;
using cuda_stub::live;
using cuda_stub::set_up;
using test_support::random_unit;

std::vector<int> numbers(std::size_t count) {
  std::vector<int> found(count);
  std::iota(found.begin(), found.end(), 1);
  return found;
}

TEST_CASE("cuda device: a copy is complete when it returns, to page-locked memory, too") {
  set_up();
  const auto device = gpu::make_cuda_device();
  const auto sent = numbers(1000);
  const std::size_t bytes = sent.size() * sizeof(int);
  const auto memory = device->allocate(bytes);
  const auto page_locked = device->allocate_host(bytes);
  device->upload(sent.data(), bytes, memory.get());
  std::vector<int> pageable(sent.size());
  device->download(memory.get(), bytes, pageable.data());
  device->download(memory.get(), bytes, page_locked.get());
  CHECK(pageable == sent);
  CHECK(std::memcmp(page_locked.get(), sent.data(), bytes) == 0);
  const auto rows = device->allocate_host(bytes);
  device->download_rows(memory.get() + 8, 400, 20, 10, rows.get());
  const auto* got = reinterpret_cast<const int*>(rows.get());
  for (int row = 0; row < 10; ++row) {
    for (int i = 0; i < 5; ++i) CHECK(got[5 * row + i] == 100 * row + i + 3);
  }
}

TEST_CASE("cuda device: a copy outside an allocation is an error that names it") {
  set_up();
  const auto device = gpu::make_cuda_device();
  const auto sent = numbers(100);
  auto memory = device->allocate(400);
  std::vector<int> got(101);
  CHECK_THROWS_WITH(device->upload(sent.data(), 400, memory.get() + 4),
                    Catch::StartsWith("cudaMemcpyAsync to the device: "));
  CHECK_THROWS_WITH(device->download(memory.get(), 404, got.data()),
                    Catch::StartsWith("cudaMemcpyAsync from the device: "));
  CHECK_THROWS_WITH(device->download_rows(memory.get(), 101, 100, 4, got.data()),
                    Catch::StartsWith("cudaMemcpy2DAsync from the device: "));
  CHECK_THROWS_WITH(device->download(sent.data(), 4, got.data()),
                    Catch::StartsWith("cudaMemcpyAsync from the device: "));
  const void* const freed = memory.get();
  memory.reset();
  CHECK_THROWS_WITH(device->download(freed, 4, got.data()),
                    Catch::StartsWith("cudaMemcpyAsync from the device: "));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cuda device: what it made is released, memory when the last copy of a pointer goes") {
  set_up({.device_bytes = 1000});
  {
    const auto device = gpu::make_cuda_device();
    auto memory = device->allocate(600);
    const auto copy = memory;
    const auto on_host = device->allocate_host(10);
    memory.reset();
    CHECK(device->free_bytes() == 400);
    CHECK_THROWS_AS(device->allocate(500), gpu::OutOfDeviceMemory);
    CHECK_THROWS_WITH(device->allocate(500),
                      "the CUDA device has no room for more (cudaMalloc of 0.0 MiB: out of "
                      "memory); use --device cpu");
    CHECK(live() == Live{1, 1, 1, 1});
  }
  CHECK(live() == Live{});
  CHECK(cuda_stub::misuses().empty());
}

std::vector<Result> results_of(gpu::Device& device, const Unit& unit,
                               const std::vector<Configuration>& configurations) {
  const UnitReplays replays{&unit, configurations};
  const auto outcomes = gpu::replay_on(device, {&replays, 1}, {});
  std::vector<Result> results;
  for (const Outcome& outcome : outcomes.front()) results.push_back(outcome.result);
  return results;
}

TEST_CASE("cuda device: a kernel takes the shared memory that there is, or none") {
  const Unit unit = random_unit({.tokens = 100, .group = 2}, 1);
  const std::vector<Configuration> configurations{{Spec("h2o"), 40}, {Spec("topk"), 20}};
  set_up();
  const auto expected = results_of(*gpu::make_cuda_device(), unit, configurations);
  for (const int bytes : {1 << 10, (1 << 10) + 500, 3 << 10}) {
    CAPTURE(bytes);
    // More than the kernel's own has to be asked for.
    set_up({.most_shared_bytes = bytes, .shared_bytes_anyway = 1 << 10});
    const auto found = results_of(*gpu::make_cuda_device(), unit, configurations);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(test_support::identical(found[i], expected[i]));
    }
  }
  CHECK(expected.front().evictions > 0);
}

TEST_CASE("cuda device: warps of concurrent threads replay what the CPU does") {
  const Unit unit = random_unit({.tokens = 70, .group = 2}, 2);
  const std::vector<Configuration> configurations{{Spec("h2o"), 12}};
  const auto expected = replay(unit, configurations, {}, *make_cpu_backend());
  set_up();
  const EmulatedWarps warps;
  const auto found = results_of(*gpu::make_cuda_device(), unit, configurations);
  CHECK(test_support::differences(found.front(), expected.front().result, 1e-4) == "");
}

// The largest difference of a handle's product of random numbers from that in fp64.
double largest_error(gpu::Device& device, cudaStream_t stream, const gpu::Blas& blas) {
  constexpr int kDim = 64;
  constexpr int kRows = 20;
  std::vector<float> sent;
  for (int i = 0; i < 2 * kRows * kDim; ++i) sent.push_back(1.F / static_cast<float>(3 + i % 7));
  const std::size_t bytes = sent.size() * sizeof(float);
  const auto memory = device.allocate(bytes + kRows * kRows * sizeof(float));
  device.upload(sent.data(), bytes, memory.get());
  auto* const a = reinterpret_cast<float*>(memory.get());
  float* const c = a + sent.size();
  const float one = 1;
  const float zero = 0;
  gpu::check(gpu::cublas().sgemm_strided_batched(blas.get(), CUBLAS_OP_T, CUBLAS_OP_N, kRows, kRows,
                                                 kDim, &one, a, kDim, 0, a + kRows * kDim, kDim, 0,
                                                 &zero, c, kRows, 0, 1),
             "product");
  gpu::check(cudaStreamSynchronize(stream), "wait");
  std::vector<float> product(kRows * kRows);
  device.download(c, product.size() * sizeof(float), product.data());
  double largest = 0;
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kRows; ++column) {
      double sum = -product[row * kRows + column];
      for (int k = 0; k < kDim; ++k) {
        sum += static_cast<double>(sent[column * kDim + k]) * sent[(kRows + row) * kDim + k];
      }
      largest = std::max(largest, std::abs(sum));
    }
  }
  return largest;
}

TEST_CASE("cuda device: products of fp32 drop no digits") {
  set_up();
  const auto device = gpu::make_cuda_device();
  const gpu::Stream stream = gpu::make_stream();
  const gpu::Blas blas = gpu::make_blas(stream.get());
  CHECK(largest_error(*device, stream.get(), blas) < 1e-6);
  gpu::cublas().set_math_mode(blas.get(), CUBLAS_DEFAULT_MATH);
  CHECK(largest_error(*device, stream.get(), blas) > 1e-4);  // so that it would show
}

}  // namespace kvsim::cuda_test::device_test
