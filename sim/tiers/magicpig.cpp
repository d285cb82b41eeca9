// MagicPIG: samples keys by locality-sensitive hashing, and weighs them by their chances.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/tiers/key_hashes.h"
#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

class MagicPig final : public Selector {
 public:
  MagicPig(const Params& params, const SelectorContext& context)
      : unit_(context.unit),
        page_(params.integer("page")),
        tables_(params.integer("tables")),
        bits_(params.integer("bits")),
        centre_(unit_.key.topRows(context.first_step > 0 ? context.first_step : unit_.num_tokens())
                    .colwise()
                    .mean()),
        hashes_(unit_.key, centre_, tables_, bits_, context.seed),
        samples_(unit_.query.size()) {}

  // A key is in the sample of a query head if it has the query's code in at least two tables.
  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    chosen.clear();
    for (std::size_t head = 0; head < samples_.size(); ++head) {
      const Eigen::RowVectorXf query = unit_.query[head].row(step.step);
      const std::vector<std::uint16_t> codes = hashes_.codes_of(query);
      std::vector<Entry>& sample = samples_[head];
      sample.clear();
      for (const std::int32_t page : step.candidates) {
        for (int token = page * page_; token < (page + 1) * page_; ++token) {
          if (hashes_.num_equal(codes, token) < 2) continue;
          if (!is_visible(unit_, step.step, token)) continue;
          const double weight = 1 / chance_of(query, token);
          sample.push_back({token, true, weight, weight});
          chosen.push_back(page);
        }
      }
      for (int token = step.step / page_ * page_; token <= step.step; ++token) {
        if (is_visible(unit_, step.step, token)) sample.push_back({token, true, 1, 1});
      }
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  }

  std::span<const Entry> sample(int head) const override { return samples_[head]; }

 private:
  // With p the chance of equal codes in one table: that of equal ones in two or more.
  double chance_of(const Eigen::RowVectorXf& query, int token) const {
    const Eigen::RowVectorXf key = unit_.key.row(token) - centre_;
    const double norms = double{query.norm()} * double{key.norm()};
    const double cosine = norms > 0 ? query.dot(key) / norms : 0;
    const double angle = std::acos(std::clamp(cosine, -1.0, 1.0));
    const double p = std::pow(1 - angle / std::numbers::pi, bits_);
    const double none = std::pow(1 - p, tables_);
    const double one = tables_ * p * std::pow(1 - p, tables_ - 1);
    return std::max(1 - none - one, kLeastChance);
  }

  // Rounding may leave nothing of the chance of a key that is nearly opposite of the query.
  static constexpr double kLeastChance = 1e-12;

  const Unit& unit_;
  int page_;
  int tables_;
  int bits_;
  Eigen::RowVectorXf centre_;
  KeyHashes hashes_;
  std::vector<std::vector<Entry>> samples_;  // per query head
};

/// The codes of all keys, and the directions at the size of keys.
std::int64_t magicpig_bytes(const Params& params, const Unit& unit) {
  const std::int64_t bits = std::int64_t{params.integer("tables")} * params.integer("bits");
  return (unit.num_tokens() * bits + 7) / 8 + bits * unit.key.cols() * unit.key_bytes;
}

}  // namespace

SelectorInfo magicpig_selector() {
  return {.name = "magicpig",
          .chooses =
              "the pages of keys that share the query's hash in at least two tables, for any "
              "query head of the group; each head estimates its output from its own sample, "
              "weighed by one over the chance of a key to be in it",
          .source = "MagicPIG (Chen et al. 2024), section 4, Algorithm 1",
          .differences =
              "keys are centred by the mean of the prompt's, in stream mode of the whole "
              "text's. First and most recent tokens have no place of their own but the "
              "step's page",
          .params = {Param::integer("tables", 150, 2, 4096, "hash tables"),
                     Param::integer("bits", 10, 1, 16, "of a hash"), page_param()},
          .make = make_selector<MagicPig>,
          .summary_bytes = magicpig_bytes,
          .bytes_per_token =
              [](const Params& params) {
                return static_cast<std::size_t>(params.integer("tables")) * sizeof(std::uint16_t);
              },
          .pair_nanoseconds = 40,
          .samples = true};
}

}  // namespace kvsim
