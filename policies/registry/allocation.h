#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// How a model-wide budget, the mean number of tokens per KV head, is split over layers and heads.
enum class Allocation { uniform, pyramid, persistence, adaptive };

/// The help text of an allocation.
struct AllocationInfo {
  std::string name;
  std::string does;
  std::string source;
  std::string differences;
};

/// In the order of the enumeration.
std::span<const AllocationInfo> allocations();

std::vector<std::string> allocation_names();
const std::string& allocation_name(Allocation allocation);

/// Throws UsageError, naming the nearest allocation, for an unknown name.
Allocation parse_allocation(std::string_view name);

/// Whether the split depends on measurements of the units, and not on the layers alone.
bool needs_measurement(Allocation allocation);

}  // namespace kvsim
