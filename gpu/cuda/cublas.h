#pragma once

#include <cublas_v2.h>

#include <string>

namespace kvsim::gpu {

/// The functions of cuBLAS that kvsim calls. They are found in the library when a device is first
/// asked for, because the library takes hundreds of megabytes to load.
struct Cublas {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSgemmStridedBatched) sgemm_strided_batched;
  decltype(&cublasGemmStridedBatchedEx_64) gemm_strided_batched_ex;
  decltype(&cublasGetStatusString) status_string;
};

/// Finds the functions in the library `file`, which stays loaded. Throws std::runtime_error if it
/// is missing or lacks one.
Cublas load_cublas(const std::string& file);

/// Loads the library at the first call, of the major version that this build was compiled for.
/// Throws what load_cublas() does.
const Cublas& cublas();

}  // namespace kvsim::gpu
