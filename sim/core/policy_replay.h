#pragma once

#include "sim/core/cache.h"
#include "sim/core/configuration_replay.h"
#include "sim/core/step_attention.h"
#include "sim/core/unit_record.h"

namespace kvsim {

/// What one policy decides about: the units of a head, of a layer, or of all layers, ordered by
/// layer. The units of a layer share one cache.
class PolicyReplay final : public ConfigurationReplay {
 public:
  PolicyReplay(const Configuration& configuration,
               std::span<const std::unique_ptr<ReplayedUnit>> units, const ReplayOptions& options);

  void advance() override;
  void measure() override;
  std::vector<Outcome> finish() override;

 private:
  struct Member {
    ReplayedUnit& replayed;
    std::unique_ptr<StepAttention> attention;
    MeasuredAttention* measured;  // the same; null without a reference
    UnitRecord record;
    Holding* holding;                  // null: its outputs are not computed with those of others
    std::vector<Measurement> pending;  // [steps, heads] of the block, still without their errors
  };

  struct Layer {
    int budget;
    Cache cache;
    std::vector<Member> members;
    std::size_t peak_tokens = 0;
  };

  Member make_member(ReplayedUnit& unit, const ReplayOptions& options) const;
  void begin_block(Layer& layer, const AttentionBlock& block);
  void run_step(Layer& layer, int step, int row);
  void evict(Layer& layer, int step);
  void select(Layer& layer, int step, int row);
  void attend(Layer& layer, int step, int row, std::span<const std::int32_t> tokens);
  void average_full_attention(const Layer& layer, int row);
  void update_scores(Layer& layer, int step, std::span<const float> attention, int overflow);
  bool in_prompt(int step) const { return step + 1 < prompt_; }

  Rules rules_;
  std::unique_ptr<Policy> policy_;
  std::vector<Layer> layers_;
  bool keeps_all_;                  // nothing ever leaves
  bool needs_attention_;            // false: neither the policy nor a measurement looks at it
  std::vector<TokenKind> kinds_;    // of all tokens, if the policy asks for them
  int prompt_;                      // the steps before this one attend in full and are not measured
  std::vector<std::int32_t> gone_;  // what left earlier layers at this step
  std::vector<float> attention_;    // mean of p, parallel to the attended tokens
  std::vector<float> full_attention_;      // mean of a, parallel to the cache's tokens
  std::vector<TokenKind> resident_kinds_;  // parallel to the cache's tokens
};

}  // namespace kvsim
