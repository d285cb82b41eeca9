#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// How a model-wide budget, so many tokens per KV head on average, is split over layers and heads.
enum class Allocation { uniform, pyramid, persistence, adaptive };

/// What help says of an allocation.
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

/// Throws UsageError, naming the nearest one, if there is none of that name.
Allocation parse_allocation(std::string_view name);

}  // namespace kvsim
