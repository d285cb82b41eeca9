#include "gpu/cuda/cuda_device.h"

#include <fmt/format.h>

#include "gpu/cuda/cuda_launch.h"
#include "gpu/cuda/cuda_resources.h"

namespace kvsim::gpu {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice() : stream_(make_stream()), blas_(make_blas(stream_.get())) {}

  std::size_t free_bytes() const override {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    constexpr double kMebibyte = 1 << 20;
    check(cudaMalloc(&memory, bytes),
          fmt::format("cudaMalloc of {:.1f} MiB", static_cast<double>(bytes) / kMebibyte));
    return {static_cast<std::byte*>(memory), [](std::byte* p) { cudaFree(p); }};
  }

  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    return {static_cast<std::byte*>(memory), [](std::byte* p) { cudaFreeHost(p); }};
  }

  void upload(const void* host, std::size_t bytes, void* to) override {
    check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_.get()),
          "cudaMemcpyAsync to the device");
    wait();
  }

  void download(const void* from, std::size_t bytes, void* host) override {
    check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync from the device");
    wait();
  }

  void download_rows(const void* from, std::size_t stride, std::size_t bytes, std::size_t rows,
                     void* host) override {
    check(cudaMemcpy2DAsync(host, bytes, from, stride, bytes, rows, cudaMemcpyDeviceToHost,
                            stream_.get()),
          "cudaMemcpy2DAsync from the device");
    wait();
  }

  // cuBLAS matrices are column-major: it sees the transposes of the row-major arrays.
  void multiply_keys(const Batch& batch) override {
    if (batch.shape.has_half_vectors) return multiply_half_keys(batch);
    const int dim = batch.shape.head_dim;
    const long long tokens = batch.shape.num_tokens;
    const float one = 1;
    const float zero = 0;
    check(cublas().sgemm_strided_batched(
              blas_.get(), CUBLAS_OP_T, CUBLAS_OP_N, batch.width(), batch.rows(), dim, &one,
              batch.key, dim, tokens * dim, batch.query + batch.text_row(0, 0) * dim, dim,
              tokens * batch.shape.group_size * dim, &zero, batch.logit, batch.shape.num_tokens,
              static_cast<long long>(batch.block_row(1, 0)) * tokens, batch.num_units),
          "cublasSgemmStridedBatched");
  }

  void run(Kernel kernel, const Batch& batch) override { launch(kernel, batch, stream_.get()); }

  void wait() override { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

 private:
  // On matrix units with fp32 sums: the compute type asked for here overrides the pedantic mode of
  // the handle.
  void multiply_half_keys(const Batch& batch) {
    const int dim = batch.shape.head_dim;
    const long long tokens = batch.shape.num_tokens;
    const float one = 1;
    const float zero = 0;
    check(cublas().gemm_strided_batched_ex(
              blas_.get(), CUBLAS_OP_T, CUBLAS_OP_N, batch.width(), batch.rows(), dim, &one,
              batch.half_key, CUDA_R_16F, dim, tokens * dim,
              batch.half_query + batch.text_row(0, 0) * dim, CUDA_R_16F, dim,
              tokens * batch.shape.group_size * dim, &zero, batch.logit, CUDA_R_32F,
              batch.shape.num_tokens, static_cast<long long>(batch.block_row(1, 0)) * tokens,
              batch.num_units, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
  }

  Stream stream_;
  Blas blas_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device() { return std::make_unique<CudaDevice>(); }

}  // namespace kvsim::gpu
