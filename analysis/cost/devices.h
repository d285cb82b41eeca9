#pragma once

#include <span>
#include <string>

namespace kvsim {

inline constexpr double kGiB = 1024.0 * 1024 * 1024;

/// The numbers of a device that a roofline model needs, at their data-sheet peaks.
struct Device {
  std::string name;
  double memory;     ///< bytes available to a program, as the CUDA runtime reports them
  double bandwidth;  ///< of the device memory, bytes/s
  double flops;      ///< dense fp16 on tensor cores, FLOP/s
  double host_link;  ///< from host memory, bytes/s in one direction
};

/// The named devices, oldest first.
std::span<const Device> devices();

}  // namespace kvsim
