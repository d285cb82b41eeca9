// What eviction frees in an allocator that hands out blocks of several slots, as the pages of
// serving engines are: a block is free again only when nothing that it holds is needed.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analysis/policy_runs.h"
#include "policies/parameters/split.h"
#include "sim/base/errors.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

constexpr int kMostSlots = 1 << 20;  // of a block

/// "1/8/16": the sizes of blocks, each once.
std::vector<int> sizes_of(const Params& params) {
  std::vector<int> sizes;
  const std::string& text = params.text("sizes");
  for (const std::string_view part : split(text, '/')) {
    int size = 0;
    const auto result = std::from_chars(part.data(), part.data() + part.size(), size);
    if (result.ec != std::errc() || result.ptr != part.data() + part.size() || size < 1 ||
        size > kMostSlots || std::ranges::find(sizes, size) != sizes.end()) {
      throw UsageError(
          fmt::format("sizes: expected different sizes of blocks in 1..{} as in 1/8/16, found '{}'",
                      kMostSlots, text));
    }
    sizes.push_back(size);
  }
  return sizes;
}

/// A number per step that changes at few of them.
class ByStep {
 public:
  explicit ByStep(int num_steps) : changes_(static_cast<std::size_t>(num_steps) + 1, 0) {}

  /// Adds `amount` to the steps begin .. end - 1.
  void add(int begin, int end, std::int64_t amount) {
    changes_[static_cast<std::size_t>(begin)] += amount;
    changes_[static_cast<std::size_t>(end)] -= amount;
  }

  struct Summary {
    double mean = 0;
    std::int64_t peak = 0;
  };

  /// Of the steps from `first` on.
  Summary summary(int first) const {
    Summary found;
    std::int64_t now = 0;
    std::int64_t sum = 0;
    const auto num_steps = static_cast<int>(changes_.size()) - 1;
    for (int step = 0; step < num_steps; ++step) {
      now += changes_[static_cast<std::size_t>(step)];
      if (step < first) continue;
      sum += now;
      found.peak = std::max(found.peak, now);
    }
    found.mean = static_cast<double>(sum) / std::max(1, num_steps - first);
    return found;
  }

 private:
  std::vector<std::int64_t> changes_;
};

class Fragmentation final : public Analysis {
 public:
  Fragmentation(const Params& params, const Subject& subject)
      : subject_(subject), sizes_(sizes_of(params)) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (const LayerRun& run : subject_.layer_runs) {
      poll_interrupt();
      const double needed = needed_mean(run);
      for (const int size : sizes_) {
        for (const bool is_shared : {false, true}) {
          const ByStep::Summary held = held_in_blocks(run, size, is_shared);
          rows.push_back({0, with_run_values(subject_, *run.front(),
                                             {std::int64_t{size}, std::int64_t{is_shared},
                                              held.mean, held.peak, needed, held.mean / needed})});
        }
      }
    }
    return rows;
  }

 private:
  int num_tokens() const { return subject_.unit.num_tokens(); }

  /// A head holds token j after the steps j .. evicted_after[j] - 1.
  double needed_mean(const LayerRun& run) const {
    ByStep needed(num_tokens());
    for (const PolicyRun* const head : run) {
      for (int token = 0; token < num_tokens(); ++token) {
        needed.add(token, head->trajectory.evicted_after[token], 1);
      }
    }
    return needed.summary(subject_.first_measured()).mean;
  }

  ByStep::Summary held_in_blocks(const LayerRun& run, int size, bool is_shared) const {
    ByStep held(num_tokens());
    if (is_shared) {
      add_blocks(run, size, held);
    } else {
      for (const PolicyRun* const head : run) add_blocks({&head, 1}, size, held);
    }
    return held.summary(subject_.first_measured());
  }

  /// Adds the slots of blocks that span these heads, for the steps after which one of them holds a
  /// token of the block.
  void add_blocks(std::span<const PolicyRun* const> heads, int size, ByStep& held) const {
    const std::int64_t slots = static_cast<std::int64_t>(size) * std::ssize(heads);
    int free_from = 0;  // of the block, as far as its tokens have been looked at
    for (int token = 0; token < num_tokens(); ++token) {
      if (token % size == 0) free_from = token;
      int end = token;
      for (const PolicyRun* const head : heads) {
        end = std::max(end, head->trajectory.evicted_after[token]);
      }
      const int begin = std::max(token, free_from);
      if (end <= begin) continue;
      held.add(begin, end, slots);
      free_from = end;
    }
  }

  const Subject& subject_;
  std::vector<int> sizes_;
};

void check_sizes(const Params& params) { sizes_of(params); }

}  // namespace

AnalysisInfo fragmentation_analysis() {
  return {
      .name = "fragmentation",
      .shows =
          "per layer, replay and size of blocks: what eviction frees in an allocator of blocks",
      .source = "kvsim's own; blocks as in PagedAttention (arXiv 2309.06180) section 4.1",
      .notes =
          "a block has so many consecutive slots in order of arrival, which are not used "
          "again; it is free after a step when no head that it spans holds any of its tokens. "
          "Of the measured steps, after eviction. Bytes are tokens x heads times those of a "
          "key and a value",
      .params = {Param::text("sizes", "slots per block, several as in 1/8/16", "1/8/16/32/64")},
      .columns = with_run_columns(
          {integer_column("page_size", "slots per block, in tokens").key(),
           integer_column("shared", "1: a block spans all KV heads of the layer; 0: one of them")
               .key(),
           real_column("held_mean", "tokens x heads that blocks occupy, mean over steps"),
           integer_column("held_peak", "the most of a step"),
           real_column("needed_mean", "tokens x heads that caches hold, mean over steps"),
           real_column("overhead", "held_mean / needed_mean; 1 at least")}),
      .summary = {"held_mean", "held_peak", "needed_mean", "overhead"},
      .summary_by = {"policy", "budget", "page_size", "shared"},
      .reads_attention = false,
      .spans_heads = true,
      .accepts = evicts_exactly,
      .check = check_sizes,
      .make = make_analysis<Fragmentation>};
}

}  // namespace kvsim
