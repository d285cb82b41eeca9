#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/store.h"

namespace kvsim {

/// A store in which evicted tokens pass something on to those that stay. An entry that took others
/// in and is evicted itself passes on what it has by then.
class MergingStore : public Store {
 public:
  using Store::Store;

  void settle(const StoredStep& step) final;

 protected:
  /// `evicted`, ascending and not empty, leave at the end of `step`, which keeps at least one
  /// token.
  virtual void merge(std::span<const std::int32_t> evicted, const StoredStep& step) = 0;

  /// The end of each step, before merge().
  virtual void observe(const StoredStep& /*step*/) {}

  /// The attention that a token received, summed over the steps so far.
  double& attention(std::int32_t token) { return attention_[static_cast<std::size_t>(token)]; }

 private:
  std::vector<std::int32_t> held_;  // after the step before
  std::vector<double> attention_;   // by text position
};

}  // namespace kvsim
