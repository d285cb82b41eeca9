#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// How a model-wide budget, so many tokens per KV head on average, is split over layers and heads.
enum class Allocation {
  uniform,      ///< the same for every head
  pyramid,      ///< less for later layers, falling in even steps (PyramidKV section 4.1)
  persistence,  ///< more for layers whose important tokens persist less (Scissorhands section 4.1)
  adaptive      ///< within a layer, more for heads with spread-out attention (AdaKV, Algorithm 1)
};

/// In the order of the enumeration, as they are written.
const std::vector<std::string>& allocation_names();

std::string allocation_name(Allocation allocation);

/// Throws UsageError, naming the nearest one, if there is none of that name.
Allocation parse_allocation(std::string_view name);

}  // namespace kvsim
