#include <cublas_v2.h>

#include <chrono>
#include <cstring>

#include "tests/cuda/stub/state.h"

// What tests/bench needs to measure a device. The rates that it finds here mean nothing: large
// products are not computed.

using Clock = std::chrono::steady_clock;

struct CUevent_st {
  Clock::time_point time;
  cudaStream_t stream;
};

namespace {

using kvsim::cuda_stub::Call;
using kvsim::cuda_stub::state;

cublasStatus_t skipped(const char* name) {
  return Call(name).fails() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const Call call("cudaEventCreate");
  if (!call.fails()) *event = new CUevent_st{};
  return call.returns(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call("cudaEventDestroy");
  state().finish_all();
  delete event;
  return call.returns(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call("cudaEventRecord");
  event->stream = stream;
  stream->work.emplace_back([event] { event->time = Clock::now(); });
  return call.returns(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call("cudaEventSynchronize");
  state().finish(event->stream);
  return call.returns(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Call call("cudaEventElapsedTime");
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return call.returns(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const Call call("cudaGetDeviceProperties");
  std::strcpy(properties->name, "stub of tests/cuda");
  return call.returns(cudaSuccess);
}

cublasStatus_t cublasSgemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                           const float*, const float*, int, const float*, int, const float*, float*,
                           int) {
  return skipped("cublasSgemm");
}

cublasStatus_t cublasDgemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                           const double*, const double*, int, const double*, int, const double*,
                           double*, int) {
  return skipped("cublasDgemm");
}
