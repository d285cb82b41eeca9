#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/interface/estimator.h"
#include "policies/parameters/params.h"
#include "sim/attention/attention.h"

namespace kvsim {

/// What a selector is made for.
struct SelectorContext {
  const Unit& unit;        ///< has to outlive the selector
  int first_step = 0;      ///< the first that chooses: the length of the prompt in prefill mode
  std::uint64_t seed = 0;  ///< of this unit
};

/// One step, as a selector sees it. Pages are numbered from the start of the text.
struct SelectorStep {
  int step = 0;
  int row = 0;  ///< of the block
  /// The pages that it may choose, ascending: complete, and the step sees a token of each.
  std::span<const std::int32_t> candidates;
  /// The full attention to each page before that of the step, group mean: for exact selectors.
  std::span<const double> attention;
  double always = 0;  ///< the attention to what is there in any case: the step's page and the sink
};

/// Chooses, at every step of one unit, the older pages that the step attends to.
class Selector {
 public:
  virtual ~Selector() = default;

  /// Called before the steps of a block, which choose() is then asked for in order.
  virtual void begin_block(const AttentionBlock&) {}

  /// Writes the chosen candidates to `chosen`, ascending.
  virtual void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) = 0;

  /// Of a selector that samples: what a query head estimates its output from at the step of the
  /// last choose(), ascending; tokens of the chosen pages and of the step's own. Empty: its
  /// attention to all tokens of these pages.
  virtual std::span<const Entry> sample(int) const { return {}; }
};

/// What the table of selectors (selectors.cpp) knows of one of them.
struct SelectorInfo {
  std::string name;
  std::string chooses;           ///< continues "at each step: ..."
  std::string source;            ///< paper, section, equation
  std::string differences = {};  ///< from the paper; empty: none
  /// `page` is among them, in tokens, and `k`, in tokens, if the number of pages is fixed.
  std::vector<Param> params;

  std::function<std::unique_ptr<Selector>(const Params& params, const SelectorContext& context)>
      make;

  /// What the device holds of a KV head at the end of the text in order to choose, at the trace's
  /// element size; null: nothing, as it needs all keys and is no method for a device.
  std::function<std::int64_t(const Params& params, const Unit& unit)> summary_bytes = {};

  /// The memory that it works in, in bytes per token, in addition to a copy of the keys; null:
  /// none.
  std::function<std::size_t(const Params& params)> bytes_per_token = {};

  /// An estimate of the time that it takes per step, older token and query head, in nanoseconds of
  /// one core: what is dealt out to shards goes by it.
  std::int64_t pair_nanoseconds = 0;

  bool samples = false;  ///< query heads estimate their outputs: Selector::sample()

  /// What defines it, if that is not the program: "Python".
  std::string origin = {};
  std::string code = {};  ///< a digest of its source text, if that is not the program's
};

template <class T>
std::unique_ptr<Selector> make_selector(const Params& params, const SelectorContext& context) {
  return std::make_unique<T>(params, context);
}

/// The parameters that selectors share.
Param number_param();               ///< k
Param page_param(int initial = 1);  ///< page

/// The pages that `k` tokens come to: they are rounded up.
int pages_of(const Params& params);

}  // namespace kvsim
