#pragma once

#include <optional>

#include "sim/outputs/resident_attention.h"
#include "sim/outputs/step_attention.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/policy_steps.h"
#include "sim/replay/unit_record.h"

namespace kvsim {

/// Replays one policy on the units that it decides for together: one head, the heads of a layer, or
/// all layers, ordered by layer. The units of a layer share one cache.
class PolicyReplay final : public ConfigurationReplay, private StepSource {
 public:
  PolicyReplay(const Configuration& configuration,
               std::span<const std::unique_ptr<ReplayedUnit>> units, const ReplayOptions& options);
  PolicyReplay(const PolicyReplay&) = delete;  // its steps refer to its kinds
  PolicyReplay& operator=(const PolicyReplay&) = delete;

  void advance() override;
  void measure() override;
  std::vector<const OutputDeltas*> deltas() const override;
  std::vector<Outcome> finish() override;

 private:
  struct Member {
    ReplayedUnit& replayed;
    std::unique_ptr<ResidentAttention> resident;  // null with the full attention of every step
    std::unique_ptr<MeasuredAttention> measured;  // null without a reference
    UnitRecord record;
    CacheContents* contents;           // null: outputs are computed per step, not per block
    OutputDeltas deltas;               // of the block, if outputs are computed per step
    std::vector<Measurement> pending;  // [steps, heads] of the block; with contents, without errors
  };
  using Layer = std::vector<Member>;  // the units that share a cache

  Member make_member(ReplayedUnit& unit, const ReplayOptions& options) const;
  void begin_block(std::size_t layer, const AttentionBlock& block);
  static void measure(Member& member);
  const AttentionBlock& block() const { return layers_.front().front().replayed.block(); }

  void attend(std::size_t layer, int step, std::span<const std::int32_t> tokens,
              std::span<std::vector<float>> means) override;
  void settle(std::size_t layer, std::span<const std::int32_t> held, bool is_whole) override;
  void average_full_attention(std::size_t layer, int step, std::span<const std::int32_t> tokens,
                              std::span<std::vector<float>> means) override;
  ResidentVectors keys(std::size_t layer, std::size_t head,
                       std::span<const std::int32_t> tokens) const override;
  ResidentVectors values(std::size_t layer, std::size_t head,
                         std::span<const std::int32_t> tokens) const override;
  std::span<const std::int32_t> selected(std::size_t layer, int step) const override;
  void set_queries(std::size_t layer, std::size_t head, int step,
                   std::vector<std::span<const float>>& queries) const override;

  std::vector<TokenKind> kinds_;      // of all tokens, if the policy reads them
  int prompt_;                        // the steps before this one are not measured
  std::optional<PolicySteps> steps_;  // set by the constructor
  std::vector<Layer> layers_;
  bool reads_mean_;  // false: the policy does not read the mean attention
};

}  // namespace kvsim
