#pragma once

#include <span>
#include <string>

namespace kvsim {

inline constexpr double kGiB = 1024.0 * 1024 * 1024;

/// The four numbers of a device that a roofline needs, at their data-sheet peaks.
struct Device {
  std::string name;
  double memory;     ///< bytes that a program can have: what the CUDA runtime reports
  double bandwidth;  ///< of that memory, bytes/s
  double flops;      ///< dense fp16 on tensor cores, FLOP/s
  double host_link;  ///< from host memory, bytes/s in one direction
};

/// The named devices, oldest first.
std::span<const Device> devices();

}  // namespace kvsim
