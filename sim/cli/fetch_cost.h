#pragma once

#include <optional>
#include <vector>

#include "sim/cli/fetch_means.h"
#include "sim/cli/quantity.h"

namespace kvsim::cli {

/// What `kvsim cost` says of a workload whose device holds some of the cache and fetches as rows of
/// the table `fetch` say. `largest`: the batch that fits; none: nothing limits it.
std::vector<Quantity> fetch_quantities(const Deployment& at, const Workload& work,
                                       const FetchMean& mean, std::optional<std::int64_t> largest);

}  // namespace kvsim::cli
