#include "tests/bench/device_ceilings.h"

#include <functional>
#include <random>
#include <vector>

#include "gpu/cuda/cuda_resources.h"
#include "gpu/cuda/cuda_status.h"

namespace kvsim::bench {
namespace {

using gpu::check;

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(data_); }

  void* data() const { return data_; }

  // Products of zeros would take less power, and so be faster.
  template <class T>
  void fill(std::size_t count) const {
    std::minstd_rand random(1);
    std::vector<T> numbers(count);
    for (T& number : numbers) number = static_cast<T>(random()) / static_cast<T>(random.max());
    check(cudaMemcpy(data_, numbers.data(), count * sizeof(T), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

 private:
  void* data_ = nullptr;
};

// The fastest of ten, by the device's own clock.
double best_seconds(cudaStream_t stream, const std::function<void()>& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  float best = 0;
  for (int i = 0; i < 10; ++i) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    work();
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i == 0 || milliseconds < best) best = milliseconds;
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  return 1e-3 * best;
}

}  // namespace

nlohmann::json device_ceilings() {
  constexpr int kSize = 8192;
  constexpr std::size_t kItems = std::size_t{kSize} * kSize;
  constexpr double kGflop = 2e-9 * kSize * kSize * kSize;
  const gpu::Stream stream = gpu::make_stream();
  const gpu::Blas blas = gpu::make_blas(stream.get());
  const DeviceMemory a(kItems * sizeof(double));
  const DeviceMemory b(kItems * sizeof(double));
  const DeviceMemory c(kItems * sizeof(double));
  const auto single = [&] {
    const float one = 1;
    check(cublasSgemm(blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &one,
                      static_cast<float*>(a.data()), kSize, static_cast<float*>(b.data()), kSize,
                      &one, static_cast<float*>(c.data()), kSize),
          "cublasSgemm");
  };
  const auto twice = [&] {
    const double one = 1;
    check(cublasDgemm(blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &one,
                      static_cast<double*>(a.data()), kSize, static_cast<double*>(b.data()), kSize,
                      &one, static_cast<double*>(c.data()), kSize),
          "cublasDgemm");
  };
  const std::size_t bytes = kItems * sizeof(double);
  const std::vector<char> host(bytes);
  const auto copy = [&](const void* from, cudaMemcpyKind kind) {
    return [&, from, kind] {
      check(cudaMemcpyAsync(a.data(), from, bytes, kind, stream.get()), "cudaMemcpyAsync");
    };
  };
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const auto rate = [&](double work, const std::function<void()>& task) {
    return work / best_seconds(stream.get(), task);
  };
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  a.fill<float>(kItems);
  b.fill<float>(kItems);
  const double fp32 = rate(kGflop, single);
  a.fill<double>(kItems);
  b.fill<double>(kItems);
  c.fill<double>(kItems);
  check(cublasSetMathMode(blas.get(), CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
  const double fp64 = rate(kGflop, twice);
  return {{"device", properties.name},
          {"fp32_gflop_per_s", fp32},
          {"fp64_gflop_per_s", fp64},
          {"copy_gb_per_s", rate(2 * gigabytes, copy(b.data(), cudaMemcpyDeviceToDevice))},
          {"upload_gb_per_s", rate(gigabytes, copy(host.data(), cudaMemcpyHostToDevice))}};
}

}  // namespace kvsim::bench
