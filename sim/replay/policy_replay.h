#pragma once

#include "sim/cache/cache.h"
#include "sim/outputs/step_attention.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/unit_record.h"

namespace kvsim {

/// Replays one policy on the units that it decides for together: one head, the heads of a layer, or
/// all layers, ordered by layer. The units of a layer share one cache.
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
    MeasuredAttention* measured;  // `attention`; null without a reference
    UnitRecord record;
    CacheContents* contents;           // null: outputs are computed per step, not per block
    std::vector<Measurement> pending;  // [steps, heads] of the block, without errors yet
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
  bool is_prompt_end(int step) const { return step + 1 == prompt_; }
  int num_selected(const Layer& layer, int step) const;

  Rules rules_;
  std::unique_ptr<Policy> policy_;
  std::vector<Layer> layers_;
  bool keeps_all_;                // no token ever leaves
  bool needs_attention_;          // false: neither the policy nor a measurement reads it
  std::vector<TokenKind> kinds_;  // of all tokens, if the policy reads them
  int prompt_;                    // the steps before this one attend in full and are not measured
  int interval_;                  // see most_held()
  std::vector<std::int32_t> left_earlier_layers_;  // tokens evicted at this step
  std::vector<float> attention_;                   // mean of p, parallel to the attended tokens
  std::vector<float> full_attention_;              // mean of a, parallel to the cache's tokens
  std::vector<TokenKind> resident_kinds_;          // parallel to the cache's tokens
  std::vector<std::span<const float>> queries_;    // of the step, if the policy reads them
};

}  // namespace kvsim
