#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/interface/policy.h"
#include "sim/replay/replay.h"
#include "sim/running/running_replay.h"

namespace kvsim {

/// A text that a running model reads or writes.
struct RunningText {
  std::string sequence;  ///< its name, of which the policies' random choices depend
  int prompt_length = 0;
  int num_tokens = 0;  ///< 0: not known
};

/// All caches of one text under one configuration in a running model.
///
/// Every forward pass of the model calls advance() for each layer in turn, then end_forward().
/// After one of them has thrown, the text cannot go on. For one thread at a time.
class RunningCaches {
 public:
  /// `configuration.budgets`, if set, has one budget per layer and KV head. Without them a split of
  /// the budget that is not measured is made at once, a measured one at the end of the prompt.
  /// Throws UsageError for an oracle, a policy that reads the full attention, what
  /// check_protocol() refuses, a measured split without budgets in stream mode, and what the
  /// model's shape or an unknown length rule out.
  RunningCaches(Configuration configuration, ModelShape shape, RunningText text,
                const ReplayOptions& options);
  RunningCaches(const RunningCaches&) = delete;
  RunningCaches& operator=(const RunningCaches&) = delete;

  /// New tokens of a layer. Runs their steps and writes their outputs to `outputs`, [rows.count,
  /// query heads, value_dim], unless it is null. Where the tokens are of the prompt, steps may
  /// wait for end_forward(), and then write no outputs. Throws UsageError for tokens of the prompt
  /// with later ones, and several later ones, if waits(); Interrupted if that flag is set.
  void advance(int layer, const LayerRows& rows, float* outputs,
               const std::atomic<bool>* interrupted = nullptr);

  /// New tokens of a layer that reads the cache of another one, for which advance() was called
  /// before: `rows` has their queries alone. Throws UsageError for other rows than that call had.
  void add_queries(int reader, const LayerRows& rows);

  /// Whether steps of the prompt wait for all layers.
  bool waits() const { return takes_single_steps() || replays_.empty(); }
  /// Whether each step after the prompt needs all layers of the one before it.
  bool takes_single_steps() const { return scope_ == Scope::model || waits_for_readers_; }

  /// The forward pass has ended. Runs the steps that have waited.
  void end_forward(const std::atomic<bool>* interrupted = nullptr);

  /// The texts of the next tokens, before they come, for policies that read their kinds; without,
  /// they are words.
  void add_text(const std::vector<std::string>& texts);

  const Spec& policy() const { return configuration_.policy; }
  const ModelShape& shape() const { return shape_; }
  /// The layer with that cache. Throws UsageError if there is none.
  const ModelLayer& layer(int index) const { return shape_.layers[index_of(index)]; }
  /// The layer that reads another one's cache. Throws UsageError if there is none.
  const ReadingLayer& reader(int index) const {
    const Reading at = reading_of(index);
    return shape_.layers[at.layer].readers[at.reader];
  }
  int num_tokens(int layer) const;

  /// Whether each step attends to original tokens at their positions in the text, so that a mask
  /// can stand for the cache.
  bool is_plain() const { return is_plain_; }
  /// Whether keys are rotated to their slot of the cache, by LayerShape::rope.
  bool rotates_to_slots() const { return rotates_to_slots_; }
  Scope scope() const { return scope_; }
  int prompt_length() const { return prompt_; }

  /// Per KV head of a layer: the use of its cache so far. Empty caches if the steps have waited.
  std::vector<CacheUsage> usage(int layer) const;

 private:
  struct Place {  // of a unit
    std::size_t replay = 0;
    std::size_t layer = 0;  // in the replay
  };

  struct Reading {  // by a layer of the cache of another one
    std::size_t layer = 0;
    std::size_t reader = 0;  // among its readers
  };

  std::size_t index_of(int layer) const;
  Reading reading_of(int reader) const;
  void check_readers(int num_tokens) const;
  std::span<const std::unique_ptr<RunningUnit>> units_of(std::size_t layer) const;
  void check_shape(const Rules& rules) const;
  void require_whole() const;
  void check_selects(const ModelLayer& layer, const LayerRows& rows) const;
  void add_selected(std::size_t layer, int first, const LayerRows& rows);
  void read_schedules();
  void read_scores(const Rules& rules);
  void split_budget();
  void make_replays();
  void run_steps(std::size_t layer, int first, int count, const OutputRows* outputs);
  void run_all_layers(int first, int count);
  void compute(std::size_t layer, int first, int count);

  Configuration configuration_;
  ModelShape shape_;
  ReplayOptions options_;
  int prompt_;      // tokens that attend in full: 0 in stream mode
  int num_tokens_;  // of the whole text; 0: not known
  bool has_failed_ = false;
  bool is_plain_ = true;
  bool rotates_to_slots_ = false;
  bool shares_caches_ = false;
  std::string joining_ = {};  // the combinator that joins evicted tokens with others; empty: none
  bool waits_for_readers_ = false;  // before a step is run, since it sees their attention
  Scope scope_ = Scope::head;
  std::vector<TokenKind> kinds_;
  std::vector<std::unique_ptr<RunningUnit>> units_;        // by layer, then KV head
  std::vector<std::size_t> first_units_;                   // of each layer, among them
  std::vector<std::unique_ptr<RunningReplay>> replays_;    // none: the split is not made yet
  std::vector<std::vector<Place>> places_;                 // [layer][KV head]
  std::vector<int> steps_run_;                             // per layer
  std::vector<std::vector<int>> num_queries_;              // [layer][reader]: tokens so far
  std::vector<std::shared_ptr<SelectedTokens>> selected_;  // per layer; null: sees all tokens
};

}  // namespace kvsim
