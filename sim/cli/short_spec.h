#pragma once

#include <string>

namespace kvsim::cli {

/// A canonical spec without the parameters that have their defaults, for tables: "h2o" for
/// "h2o:recent=0.5,score=sum,...". It names the same policy.
std::string short_spec(const std::string& canonical);

}  // namespace kvsim::cli
