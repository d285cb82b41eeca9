#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/parameters/params.h"

namespace kvsim {

/// How a model-wide budget, the mean number of tokens per KV head, is split over layers and heads.
enum class Allocation { uniform, pyramid, persistence, adaptive, cake, file, duo, headkv };

/// The help text of an allocation, and its parameters.
struct AllocationInfo {
  std::string name;
  std::string does;
  std::string source;
  std::string differences;
  std::vector<Param> params = {};
};

/// In the order of the enumeration.
std::span<const AllocationInfo> allocations();

std::vector<std::string> allocation_names();
const std::string& allocation_name(Allocation allocation);

/// Throws UsageError, naming the nearest allocation, for an unknown name.
Allocation parse_allocation(std::string_view name);

/// Whether the split depends on measurements of the units, and not on the layers alone.
bool needs_measurement(Allocation allocation);

/// Whether the heads of a layer may get different budgets.
bool splits_layers(Allocation allocation);

/// Whether the split depends on the policy: on the newest tokens that it protects, or its votes.
bool follows_policy(Allocation allocation);

/// An allocation with its parameters, as a spec names it after '@': `name`, or
/// `name:key=value,key=value`. Of one that reads a file the first entry may be the path alone:
/// `file:budgets.npy` is `file:file=budgets.npy`.
class AllocationSpec {
 public:
  /// With its parameters at their defaults. One that reads a file has none yet.
  AllocationSpec(Allocation rule);  // NOLINT(google-explicit-constructor): most have no parameters
  /// Throws UsageError for an unknown name or parameter, a value that is not allowed, a missing
  /// file, and a path that specs cannot hold.
  explicit AllocationSpec(std::string_view text);

  Allocation rule() const { return rule_; }
  const Params& params() const { return params_; }

  /// The canonical form: every parameter with its value, in declared order.
  std::string text() const;

  bool reads_file() const;
  /// Only of one that reads a file: its path, and the SHA-256 that it must have (empty: any).
  const std::string& file() const { return params_.text("file"); }
  const std::string& sha256() const { return params_.text("sha256"); }
  AllocationSpec with_sha256(const std::string& sha256) const;

  /// Whether it has this parameter.
  bool has(std::string_view name) const;
  /// Throws UsageError as the constructor does.
  void set(std::string_view name, std::string_view value);
  void require_file() const;

 private:
  Allocation rule_;
  Params params_;
};

}  // namespace kvsim
