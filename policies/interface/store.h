#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policies/interface/rotation.h"

namespace kvsim {

/// What a cache holds of one token.
struct StoredToken {
  std::span<const float> key;    ///< [head_dim], rotated to the token's position in the text
  std::span<const float> value;  ///< [value_dim]
  double log_weight = 0;         ///< added to its logit: ln of the number of tokens it stands for
};

/// The vectors of one token as recorded.
struct VectorShape {
  int head_dim = 0;
  int value_dim = 0;
  int key_bytes = 4;    ///< bytes per number of a key: 2 or 4
  int value_bytes = 4;  ///< bytes per number of a value: 2 or 4

  std::size_t bytes() const {
    return static_cast<std::size_t>(head_dim) * static_cast<std::size_t>(key_bytes) +
           static_cast<std::size_t>(value_dim) * static_cast<std::size_t>(value_bytes);
  }
};

/// What a store knows of the KV head whose cache it is.
struct StoreContext {
  VectorShape shape;
  std::uint64_t seed = 0;                   ///< from the user's seed and the unit's coordinates
  float scale = 1;                          ///< logit = scale * <query, key>
  std::optional<float> logit_softcap = {};  ///< logit becomes cap * tanh(logit / cap)
  std::optional<Rotation> rotation = {};  ///< if the trace has it; Rules::sees_rotation asks for it
};

/// The end of a step, after its evictions.
struct StoredStep {
  int index = 0;                           ///< t
  std::span<const std::int32_t> attended;  ///< text positions, ascending; the last is t
  std::span<const float> attention;        ///< p, parallel to `attended`: mean over the query heads
  std::span<const std::int32_t> held;      ///< what the cache keeps of them, ascending
  bool is_whole = false;  ///< a step of a prompt that attends in full, before its last: nothing may
                          ///< be altered yet
  std::span<const std::span<const float>> queries = {};  ///< of each query head, [head_dim] each
};

/// The keys and values of one KV head's cache, where they are kept otherwise than as recorded. One
/// object follows one replay of one unit. A token's own step, and the steps of a prompt that
/// attends in full, see vectors as recorded; later steps see what at() returns.
///
/// The base class keeps vectors as recorded.
class Store {
 public:
  explicit Store(const StoreContext& context) : shape_(context.shape) {}
  virtual ~Store() = default;

  /// The token of the next step arrives, before the attention of that step. Tokens come in order
  /// from 0 on, and the spans need not outlive the call.
  virtual void admit(std::span<const float> key, std::span<const float> value);

  /// A step has ended. From the last step of a prompt on, tokens may be altered.
  virtual void settle(const StoredStep& step) { num_held_ = step.held.size(); }

  /// A token that the cache holds, or one that it evicted, if StoreKind::keeps_evicted(). Valid
  /// until the next call of admit() or settle().
  virtual StoredToken at(std::int32_t token) const { return {key_row(token), value_row(token)}; }

  /// All that is stored after the last settle(), codes, scales and weights included.
  virtual std::size_t bytes() const { return num_held_ * shape_.bytes(); }

 protected:
  std::span<float> key_row(std::int32_t token);
  std::span<float> value_row(std::int32_t token);
  std::span<const float> key_row(std::int32_t token) const;
  std::span<const float> value_row(std::int32_t token) const;
  const VectorShape& shape() const { return shape_; }

 private:
  VectorShape shape_;
  std::vector<float> keys_;    // [tokens, head_dim]
  std::vector<float> values_;  // [tokens, value_dim]
  std::size_t num_held_ = 0;
};

/// A way to store a cache: what a combinator puts into Rules::store.
class StoreKind {
 public:
  virtual ~StoreKind() = default;

  virtual std::unique_ptr<Store> make(const StoreContext& context) const = 0;

  /// The bytes of a cache of `tokens` tokens of a text of `length`, as a budget in bytes counts
  /// them. Does not fall with `tokens`.
  virtual std::size_t bytes(const VectorShape& shape, int tokens, int length) const = 0;

  /// Whether steps also attend to tokens that the policy has evicted, which the store keeps in
  /// another form. They are then no longer candidates and never return.
  virtual bool keeps_evicted() const { return false; }

  /// Whether evicted tokens pass something on to tokens that stay: layers that hide tokens from
  /// later steps, by a sliding window, chunks or a selection, are then refused.
  virtual bool joins_tokens() const { return false; }
};

}  // namespace kvsim
