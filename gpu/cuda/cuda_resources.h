#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "gpu/cuda/cublas.h"
#include "gpu/cuda/cuda_status.h"

namespace kvsim::gpu {

struct Release {
  void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
  void operator()(cublasContext* blas) const { cublas().destroy(blas); }
};

using Stream = std::unique_ptr<CUstream_st, Release>;
using Blas = std::unique_ptr<cublasContext, Release>;

/// A stream that does not synchronise with the default stream.
Stream make_stream();

/// A cuBLAS handle on `stream` that computes fp32 products in fp32: no TF32, no emulation.
Blas make_blas(cudaStream_t stream);

}  // namespace kvsim::gpu
