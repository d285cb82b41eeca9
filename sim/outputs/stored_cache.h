#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "policies/interface/store.h"
#include "traces/unit.h"

namespace kvsim {

/// How the unit's keys are rotated; nothing if the trace does not say. Refers to the unit.
std::optional<Rotation> rotation_of(const Unit& unit);

/// The vectors of the unit as recorded.
VectorShape shape_of(const Unit& unit);

/// The store of one unit's cache (Rules::store) over a replay, and what it has to be shown.
class StoredCache {
 public:
  /// Steps before `first_stored` see all tokens as recorded. Keeps a reference to `unit`, which may
  /// grow.
  StoredCache(const Unit& unit, const Rules& rules, int first_stored, std::uint64_t seed);

  /// Step `step` attends to what the cache holds, ascending, itself the last. Steps come in order
  /// from 0 on; several calls for one step count once.
  void begin(int step, std::span<const std::int32_t> held);

  /// All tokens that the step attends to, ascending: those held, and those that the policy evicted
  /// where the store keeps them.
  std::span<const std::int32_t> attended() const { return attended_; }
  /// The latter alone.
  std::span<const std::int32_t> evicted() const { return evicted_; }

  /// Whether the step sees this token as the store has it.
  bool is_stored(std::int32_t token) const { return token != step_ && step_ >= first_stored_; }
  StoredToken at(std::int32_t token) const { return store_->at(token); }

  /// Adds the weights of one query head, parallel to what is held, whose softmax has this sum.
  void add_attention(std::span<const float> weights, double weight_sum);

  /// The step has ended, and the cache keeps `held`.
  void settle(std::span<const std::int32_t> held, bool is_whole);

  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  const Unit& unit_;
  bool keeps_evicted_;
  int first_stored_;
  std::unique_ptr<Store> store_;
  int step_ = -1;
  std::vector<std::int32_t> held_;
  std::vector<std::int32_t> evicted_;   // by the policy, that the store keeps; ascending
  std::vector<std::int32_t> attended_;  // both, ascending
  std::vector<float> attention_;        // parallel to held_, of the step
  std::size_t peak_bytes_ = 0;
};

}  // namespace kvsim
