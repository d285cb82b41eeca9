#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// A CUDA device on the host, for tests of gpu/cuda: include/ has its functions. It does what CUDA
/// documents, and of what CUDA leaves open the worst:
///
/// - Work of a stream runs when the host waits for the stream or frees memory, and no earlier.
///   Copies from memory that is not page-locked take its content at once; copies to it wait.
/// - Memory starts as NaN and -1. The host cannot touch device memory, and nobody what is next to
///   an allocation: the program ends with SIGSEGV.
/// - A copy in a wrong direction, outside an allocation or to memory that was freed fails.
/// - A product in fp32 drops the digits that TF32 does not have, unless the handle is pedantic.
/// - A launch fails that has no or too many threads or more shared memory than was asked for.
///
/// All members may be used by several threads at a time.
namespace kvsim::cuda_stub {

struct Settings {
  int devices = 1;
  bool has_code = true;  ///< for the device, in the program
  std::size_t device_bytes = std::size_t{1} << 32;
  int most_shared_bytes = 227 << 10;   ///< that a thread block may have
  int shared_bytes_anyway = 48 << 10;  ///< of them without asking for more
};

/// Sets the device up. No call fails any more; num_calls() and misuses() begin anew.
void set_up(const Settings& settings = {});

/// Lets call number `nth` from now fail, counted from 0 over all functions: those of CUDA with
/// `error`, those of cuBLAS with ALLOC_FAILED if it is cudaErrorMemoryAllocation and else with
/// EXECUTION_FAILED. What releases something does so nevertheless.
void fail_call(int nth, cudaError_t error);

/// Functions called since set_up(), without those that only name or clear an error.
int num_calls();

/// The function that failed as fail_call() wished; empty if none did.
std::string failed_call();

/// Objects that exist.
struct Live {
  int device_memory = 0;
  int host_memory = 0;
  int streams = 0;
  int handles = 0;

  bool operator==(const Live&) const = default;
};
Live live();

/// What CUDA would not report: writes past the end of an allocation, pointers freed twice.
std::vector<std::string> misuses();

/// What a const void* of a kernel points to.
struct StandIn {
  /// Copies a launch's arguments and returns what runs a thread block.
  std::function<std::function<void(unsigned block)>(void** arguments)> take;
  unsigned most_threads;
};

}  // namespace kvsim::cuda_stub
