#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/output_changes.h"

namespace kvsim {

/// A query head at an earlier step, as `lookback` remembers it. Lists have a place for each token
/// that it saw and that stays.
struct PastQuery {
  static constexpr auto kNoSlot = static_cast<std::size_t>(-1);

  std::vector<double> weights;     // exp(logit - the largest)
  double sink = 0;                 // the same of a learned sink, which stays and has no value
  double most = 1;                 // no weight is larger
  double second = 0;               // nor any but that of `heaviest`
  std::size_t heaviest = kNoSlot;  // the place of the largest weight; kNoSlot: not looked for
  std::vector<double> given;       // the output of the step, [value_dim]; empty with target=now
  bool is_whole = true;            // none of its tokens has left

  // Over those tokens; follow every token that leaves. Empty until a step evicts.
  double sum = 0;                    // of the weights
  std::vector<double> output;        // [value_dim]
  std::vector<double> error;         // output less what it is compared with, [value_dim]
  OutputProducts of_output;          // of these two
  std::vector<double> along_output;  // each value times `output`
  std::vector<double> along_error;   // each value times `error`

  /// Of each token that just left, its weight over those of all others: what `along_output` and
  /// `along_error` have yet to follow.
  std::vector<double> ratios;

  /// As a new one, with the memory that it has.
  void reset();

  /// The sum of the weights, the sink's included.
  double total() const;

  /// From the output; without `has_error` it is 0.
  void set_error(bool has_error);

  /// Takes a token that leaves out of the output, which moves by p / (1 - p) (o - v), and of its
  /// error if it has one.
  void take_out(std::size_t slot, std::span<const double> value, bool has_error);

  /// Erases tokens from the lists, by ascending slots.
  void erase(const std::vector<std::size_t>& left);

  /// The slot of the token with more than half of the weight, or the number of slots.
  std::size_t slot_of_most();

  /// By how much the squared error of the output o would change without the token of a slot, which
  /// has the value v: with the error e that it has already, |e - r (v - o)|^2 - |e|^2.
  double change_without(std::size_t slot, std::span<const float> value) const;

 private:
  void find_heaviest();
};

/// The weights of a step's queries over the tokens of a cache, as the layer's attention has them.
class QueryWeights {
 public:
  explicit QueryWeights(const Context& context);

  /// Makes `heads` those of the step, without outputs.
  void set(const Step& step, std::vector<PastQuery>& heads) const;

 private:
  void set_weights(std::size_t head, const Step& step, PastQuery& past) const;
  bool is_visible(int token, int step) const;

  double scale_;
  std::optional<double> softcap_;
  std::optional<int> window_;
  std::optional<int> chunk_;
  std::vector<float> sinks_;  // of each query head, or empty
};

}  // namespace kvsim
