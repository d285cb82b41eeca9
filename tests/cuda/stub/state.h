#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "tests/cuda/stub/stub.h"

struct CUstream_st {
  std::deque<std::function<void()>> work;
};

namespace kvsim::cuda_stub {

/// An allocation, between pages that nobody can touch.
struct Memory {
  std::byte* pages;  ///< with those around
  std::size_t page_bytes;
  std::size_t bytes;  ///< as asked for
  bool on_device;
};

/// The device; whoever uses it holds `mutex`.
struct State {
  std::mutex mutex;
  Settings settings;
  std::map<const std::byte*, Memory> memory;  ///< by address
  std::set<cudaStream_t> streams;
  std::deque<std::function<void()>> orphans;  ///< work of destroyed streams
  std::map<const void*, int> shared_limits;   ///< dynamic shared memory that kernels asked for
  int num_handles = 0;
  int num_calls = 0;
  int failing_call = -1;
  cudaError_t error = cudaSuccess;
  std::string failed_call;
  std::vector<std::string> misuses;

  /// Null where there is no room.
  std::byte* allocate(std::size_t bytes, bool on_device);
  bool release(void* address, bool on_device);
  std::size_t used_bytes() const;

  /// Whether all of these bytes are of one allocation, of the device or page-locked.
  bool holds(const void* address, std::size_t bytes, bool on_device) const;

  /// Runs the stream's work; the device's memory can be touched meanwhile.
  void finish(cudaStream_t stream);
  void finish_all();

 private:
  void run(std::deque<std::function<void()>>& work);
  void open(bool is_open);
};

State& state();

/// One call of a function of the stub: it holds the state meanwhile.
class Call {
 public:
  explicit Call(const char* name);

  /// Whether fail_call() chose this one.
  bool fails() const { return fails_; }

  /// What the function returns; CUDA's last error of the thread if it is one.
  cudaError_t returns(cudaError_t status) const;

 private:
  std::unique_lock<std::mutex> lock_;
  bool fails_;
};

}  // namespace kvsim::cuda_stub
