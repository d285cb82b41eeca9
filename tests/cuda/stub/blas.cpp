#include <cublas_v2.h>

#include <Eigen/Core>
#include <bit>

#include "tests/cuda/stub/state.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
};

namespace {

using kvsim::cuda_stub::Call;
using kvsim::cuda_stub::state;

using Product = Eigen::MatrixXf;  // column-major, as all matrices here
using Strides = Eigen::OuterStride<>;

cublasStatus_t status_of(const Call& call) {
  if (!call.fails()) return CUBLAS_STATUS_SUCCESS;
  return state().error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                                    : CUBLAS_STATUS_EXECUTION_FAILED;
}

/// `count` matrices of [rows, columns], `stride` items apart.
template <class T>
struct Matrices {
  T* first;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t leading;
  long long stride;

  auto operator[](std::int64_t i) const {
    using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic>;
    using Mapped = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
    return Eigen::Map<Mapped, 0, Strides>(first + i * stride, rows, columns, Strides(leading));
  }

  bool is_on_device(std::int64_t count) const {
    const std::int64_t items = (count - 1) * stride + (columns - 1) * leading + rows;
    return leading >= rows &&
           state().holds(first, static_cast<std::size_t>(items) * sizeof(T), true);
  }
};

float tf32(float x) {
  constexpr std::uint32_t kKept = ~std::uint32_t{0x1fff};
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & kKept);
}

// c[i] = a[i]^T b[i] for i < count; the factors are those of gpu/cuda.
template <class T>
cublasStatus_t multiply(cublasHandle_t handle, Matrices<const T> a, Matrices<const T> b,
                        Matrices<float> c, std::int64_t count) {
  if (!a.is_on_device(count) || !b.is_on_device(count) || !c.is_on_device(count)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!state().streams.contains(handle->stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool drops_digits = std::is_same_v<T, float> && handle->mode != CUBLAS_PEDANTIC_MATH;
  handle->stream->work.emplace_back([=] {
    for (std::int64_t i = 0; i < count; ++i) {
      Product left = a[i].template cast<float>();
      Product right = b[i].template cast<float>();
      if (drops_digits) left = left.unaryExpr(&tf32), right = right.unaryExpr(&tf32);
      c[i].noalias() = left.transpose() * right;
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

bool is_plain(cublasOperation_t of_a, cublasOperation_t of_b, const void* alpha, const void* beta) {
  return of_a == CUBLAS_OP_T && of_b == CUBLAS_OP_N && *static_cast<const float*>(alpha) == 1 &&
         *static_cast<const float*>(beta) == 0;
}

}  // namespace

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  const Call call("cublasCreate");
  if (call.fails()) return status_of(call);
  *handle = new cublasContext;
  ++state().num_handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  const Call call("cublasDestroy");
  state().finish_all();
  delete handle;
  --state().num_handles;
  return status_of(call);
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  const Call call("cublasSetStream");
  if (!call.fails()) handle->stream = stream;
  return status_of(call);
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  const Call call("cublasSetMathMode");
  if (!call.fails()) handle->mode = mode;
  return status_of(call);
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED       ? "the resource allocation failed"
         : status == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU program failed to execute"
                                                    : "an error that the stub found";
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t of_a,
                                         cublasOperation_t of_b, int m, int n, int k,
                                         const float* alpha, const float* a, int lda,
                                         long long stride_a, const float* b, int ldb,
                                         long long stride_b, const float* beta, float* c, int ldc,
                                         long long stride_c, int count) {
  const Call call("cublasSgemmStridedBatched");
  if (call.fails()) return status_of(call);
  if (!is_plain(of_a, of_b, alpha, beta)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return multiply<float>(handle, {a, k, m, lda, stride_a}, {b, k, n, ldb, stride_b},
                         {c, m, n, ldc, stride_c}, count);
}

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, std::int64_t m,
    std::int64_t n, std::int64_t k, const void* alpha, const void* a, cudaDataType type_a,
    std::int64_t lda, long long stride_a, const void* b, cudaDataType type_b, std::int64_t ldb,
    long long stride_b, const void* beta, void* c, cudaDataType type_c, std::int64_t ldc,
    long long stride_c, std::int64_t count, cublasComputeType_t compute,
    cublasGemmAlgo_t algorithm) {
  const Call call("cublasGemmStridedBatchedEx");
  if (call.fails()) return status_of(call);
  const bool is_known = type_a == CUDA_R_16F && type_b == CUDA_R_16F && type_c == CUDA_R_32F &&
                        compute == CUBLAS_COMPUTE_32F && algorithm == CUBLAS_GEMM_DEFAULT;
  if (!is_known || !is_plain(of_a, of_b, alpha, beta)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return multiply<Eigen::half>(handle, {static_cast<const Eigen::half*>(a), k, m, lda, stride_a},
                               {static_cast<const Eigen::half*>(b), k, n, ldb, stride_b},
                               {static_cast<float*>(c), m, n, ldc, stride_c}, count);
}
