// What the machine can do at best, to hold the engine's rates against. A program of its own and
// without the library: Eigen compiled for this very processor must not be linked with Eigen
// compiled for any.

#include <benchmark/benchmark.h>

#include <Eigen/Core>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using benchmark::Counter;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
typedef float Vector __attribute__((vector_size(kVectorBytes)));
constexpr int kLanes = kVectorBytes / sizeof(float);

void set_flops(benchmark::State& state, double per_iteration) {
  state.counters["FLOP/s"] =
      Counter(per_iteration * static_cast<double>(state.iterations()), Counter::kIsRate);
}

void multiply(benchmark::State& state, int rows, int inner, int columns) {
  const Matrix left = Matrix::Random(rows, inner);
  const Matrix right = Matrix::Random(inner, columns);
  Matrix product(rows, columns);
  for (auto _ : state) {
    product.noalias() = left * right;
    benchmark::DoNotOptimize(product.data());
    benchmark::ClobberMemory();
  }
  set_flops(state, 2.0 * rows * inner * columns);
}

// Each thread multiplies matrices of its own, as each thread of a sweep has a head of its own.
void gemm_square(benchmark::State& state) {
  const auto size = static_cast<int>(state.range(0));
  multiply(state, size, size, size);
}

// The shapes of the exact attention pass: a block of queries times all keys, weights times values.
void gemm_logits(benchmark::State& state) {
  multiply(state, 64, static_cast<int>(state.range(0)), 2048);
}

void gemm_outputs(benchmark::State& state) {
  multiply(state, 64, 2048, static_cast<int>(state.range(0)));
}

// Fused multiply-adds on registers alone, in enough independent chains to hide their latency.
void fma_registers(benchmark::State& state) {
  constexpr int kChains = 12;
  constexpr int kSteps = 4096;
  Vector sums[kChains] = {};
  const volatile float one = 1;  // the compiler must not know the product
  const Vector factor = Vector{} + one;
  const Vector addend = Vector{} + one;
  for (auto _ : state) {
    for (int step = 0; step < kSteps; ++step) {
      for (Vector& sum : sums) sum = sum * factor + addend;
    }
    for (Vector& sum : sums) benchmark::DoNotOptimize(sum);
  }
  set_flops(state, 2.0 * kSteps * kChains * kLanes);
}

// Far larger than a last-level cache, per thread.
void read_memory(benchmark::State& state) {
  constexpr std::size_t kVectors = (std::size_t{512} << 20) / kVectorBytes;
  constexpr int kSums = 8;
  const std::vector<Vector> data(kVectors, Vector{} + 1);
  for (auto _ : state) {
    Vector sums[kSums] = {};
    for (std::size_t i = 0; i < kVectors; i += kSums) {
      for (int sum = 0; sum < kSums; ++sum) sums[sum] += data[i + sum];
    }
    for (Vector& sum : sums) benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kVectors * kVectorBytes));
}

void register_all(int threads) {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("gemm_square", gemm_square)
      ->Arg(512)
      ->Arg(1024)
      ->Arg(2048)
      ->Threads(threads)
      ->UseRealTime();
  RegisterBenchmark("gemm_logits", gemm_logits)->Arg(128)->Threads(threads)->UseRealTime();
  RegisterBenchmark("gemm_outputs", gemm_outputs)->Arg(128)->Threads(threads)->UseRealTime();
  RegisterBenchmark("fma_registers", fma_registers)->Threads(threads)->UseRealTime();
  RegisterBenchmark("read_memory", read_memory)->Threads(threads)->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const int threads = argc == 2 ? std::atoi(argv[1]) : 0;
  if (threads < 1) {
    std::cerr << "machine: error: usage: machine [--benchmark_OPTION=...] THREADS" << std::endl;
    return 2;
  }
  register_all(threads);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
