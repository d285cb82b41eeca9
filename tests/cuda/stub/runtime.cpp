#include <cstring>

#include "tests/cuda/stub/state.h"

namespace {

using kvsim::cuda_stub::Call;
using kvsim::cuda_stub::StandIn;
using kvsim::cuda_stub::state;

bool exists(cudaStream_t stream) { return state().streams.contains(stream); }

// Of a kernel's own, as nvcc would state it.
constexpr int kStaticShared = 1 << 10;

cudaError_t allocated(void** memory, std::size_t bytes, bool on_device) {
  if (bytes == 0) return cudaErrorInvalidValue;
  *memory = state().allocate(bytes, on_device);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t released(void* memory, bool on_device) {
  state().finish_all();
  return state().release(memory, on_device) ? cudaSuccess : cudaErrorInvalidValue;
}

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
               std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                static_cast<const std::byte*>(from) + row * from_pitch, width);
  }
}

cudaError_t copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!exists(stream)) return cudaErrorInvalidResourceHandle;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDeviceToDevice) {
    if (!state().holds(from, width, true) || !state().holds(to, width, true) || height != 1) {
      return cudaErrorInvalidValue;
    }
    stream->work.emplace_back([=] { std::memcpy(to, from, width); });
    return cudaSuccess;
  }
  const auto extent = [&](std::size_t pitch) { return (height - 1) * pitch + width; };
  const bool is_upload = kind == cudaMemcpyHostToDevice;
  const void* const device = is_upload ? to : from;
  const void* const host = is_upload ? from : to;
  const std::size_t device_extent = extent(is_upload ? to_pitch : from_pitch);
  const std::size_t host_extent = extent(is_upload ? from_pitch : to_pitch);
  if (!state().holds(device, device_extent, true)) return cudaErrorInvalidValue;
  if (state().holds(host, 1, true)) return cudaErrorInvalidMemcpyDirection;
  const bool is_page_locked = state().holds(host, host_extent, false);
  auto& work = stream->work;
  if (is_upload && !is_page_locked) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    work.emplace_back([=, staged = std::vector<std::byte>(bytes, bytes + host_extent)] {
      copy_rows(to, to_pitch, staged.data(), from_pitch, width, height);
    });
    return cudaSuccess;
  }
  work.emplace_back([=] { copy_rows(to, to_pitch, from, from_pitch, width, height); });
  if (!is_page_locked) state().finish(stream);
  return cudaSuccess;
}

const StandIn& kernel_at(const void* function) { return *static_cast<const StandIn*>(function); }

cudaError_t launched(const void* function, dim3 blocks, dim3 threads, void** arguments,
                     std::size_t shared_bytes, cudaStream_t stream) {
  if (!exists(stream)) return cudaErrorInvalidResourceHandle;
  if (function == nullptr || !state().settings.has_code) return cudaErrorInvalidDeviceFunction;
  if (blocks.x == 0 || threads.x == 0) return cudaErrorInvalidConfiguration;
  const StandIn& kernel = kernel_at(function);
  if (threads.x > kernel.most_threads) return cudaErrorLaunchOutOfResources;
  const auto limit = state().shared_limits.find(function);
  const int most = limit == state().shared_limits.end()
                       ? state().settings.shared_bytes_anyway - kStaticShared
                       : limit->second;
  if (shared_bytes > static_cast<std::size_t>(most)) return cudaErrorInvalidValue;
  stream->work.emplace_back([run = kernel.take(arguments), blocks] {
    for (unsigned block = blocks.x; block-- > 0;) run(block);
  });
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call("cudaGetDeviceCount");
  *count = state().settings.devices;
  return call.returns(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  const Call call("cudaGetDevice");
  *device = 0;
  return call.returns(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Call call("cudaDeviceGetAttribute");
  *value = state().settings.most_shared_bytes;
  const bool is_known = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin && device == 0;
  return call.returns(is_known ? cudaSuccess : cudaErrorInvalidValue);
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error that the stub found";
  }
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call("cudaMemGetInfo");
  *total = state().settings.device_bytes;
  *free = *total - state().used_bytes();
  return call.returns(cudaSuccess);
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Call call("cudaMalloc");
  return call.returns(call.fails() ? cudaSuccess : allocated(memory, bytes, true));
}

cudaError_t cudaFree(void* memory) {
  const Call call("cudaFree");
  return call.returns(released(memory, true));
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const Call call("cudaMallocHost");
  return call.returns(call.fails() ? cudaSuccess : allocated(memory, bytes, false));
}

cudaError_t cudaFreeHost(void* memory) {
  const Call call("cudaFreeHost");
  return call.returns(released(memory, false));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Call call("cudaMemcpyAsync");
  return call.returns(call.fails() ? cudaSuccess
                                   : copy(to, bytes, from, bytes, bytes, 1, kind, stream));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Call call("cudaMemcpy");
  if (call.fails()) return call.returns(cudaSuccess);
  state().finish_all();
  CUstream_st stream;
  state().streams.insert(&stream);
  const cudaError_t status = copy(to, bytes, from, bytes, bytes, 1, kind, &stream);
  state().finish(&stream);
  state().streams.erase(&stream);
  return call.returns(status);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  const Call call("cudaMemcpy2DAsync");
  return call.returns(call.fails()
                          ? cudaSuccess
                          : copy(to, to_pitch, from, from_pitch, width, height, kind, stream));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call("cudaStreamCreateWithFlags");
  if (flags != cudaStreamNonBlocking) return call.returns(cudaErrorInvalidValue);
  if (call.fails()) return call.returns(cudaSuccess);
  *stream = *state().streams.insert(new CUstream_st).first;
  return call.returns(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call("cudaStreamDestroy");
  if (state().streams.erase(stream) == 0) return call.returns(cudaErrorInvalidResourceHandle);
  for (auto& work : stream->work) state().orphans.push_back(std::move(work));
  delete stream;
  return call.returns(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call("cudaStreamSynchronize");
  if (!exists(stream)) return call.returns(cudaErrorInvalidResourceHandle);
  if (!call.fails()) state().finish(stream);
  return call.returns(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const Call call("cudaFuncGetAttributes");
  attributes->sharedSizeBytes = kStaticShared;
  const bool is_known = function != nullptr && state().settings.has_code;
  return call.returns(is_known ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const Call call("cudaFuncSetAttribute");
  const bool is_possible = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                           value + kStaticShared <= state().settings.most_shared_bytes;
  if (is_possible && !call.fails()) state().shared_limits[function] = value;
  return call.returns(is_possible ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  const Call call("cudaLaunchKernel");
  if (call.fails()) return call.returns(cudaSuccess);
  return call.returns(launched(function, blocks, threads, arguments, shared_bytes, stream));
}
