#include "analysis/cost/devices.h"

#include <vector>

namespace kvsim {

std::span<const Device> devices() {
  // Memory is the "total capacity" in PyTorch's out-of-memory messages; it varies by up to 0.2 GiB
  // with the driver. Data sheets add up both directions of a PCIe link: 32, 64 and 128 GB/s for x16
  // of generations 3, 4 and 5. host_link is one direction.
  static const std::vector<Device> table{
      // NVIDIA T4 data sheet: 16 GB GDDR6, 320 GB/s, 65 TFLOP/s mixed precision, PCIe gen 3.
      {"t4", 14.56 * kGiB, 320e9, 65e12, 16e9},
      // NVIDIA A100 data sheet, SXM4, 40 GB HBM2: 1,555 GB/s, 312 TFLOP/s, PCIe gen 4. The memory
      // is deviceQuery's 42,298,834,944 bytes.
      {"a100-40gb", 42'298'834'944, 1555e9, 312e12, 32e9},
      // NVIDIA A100 data sheet, SXM4, 80 GB HBM2e: 2,039 GB/s.
      {"a100", 79.15 * kGiB, 2039e9, 312e12, 32e9},
      // NVIDIA H100 data sheet, SXM5, 80 GB HBM3: 3.35 TB/s, 1,979 TFLOP/s with sparsity, half of
      // that without, PCIe gen 5.
      {"h100", 79.19 * kGiB, 3.35e12, 989.5e12, 64e9},
      // NVIDIA H200 data sheet, SXM5, 141 GB HBM3e: 4.8 TB/s, the rest as the H100.
      {"h200", 139.80 * kGiB, 4.8e12, 989.5e12, 64e9},
  };
  return table;
}

}  // namespace kvsim
