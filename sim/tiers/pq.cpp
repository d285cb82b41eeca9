// PQCache: approximate attention from product-quantised keys.

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/tiers/approximate_attention.h"
#include "sim/tiers/key_codebooks.h"
#include "sim/tiers/page_attention.h"
#include "sim/tiers/selector.h"

namespace kvsim {
namespace {

int checked_groups(const Params& params, const Unit& unit) {
  const int groups = params.integer("groups");
  if (unit.key.cols() % groups == 0) return groups;
  throw UsageError(
      fmt::format("selector pq: groups={}: expected a divisor of the {} dimensions of "
                  "the keys of layer {}",
                  groups, unit.key.cols(), unit.name.layer));
}

class PQ final : public Selector {
 public:
  PQ(const Params& params, const SelectorContext& context)
      : unit_(context.unit),
        count_(static_cast<std::size_t>(pages_of(params))),
        codebooks_(unit_.key, context.first_step > 0 ? context.first_step : unit_.num_tokens(),
                   checked_groups(params, unit_), params.integer("bits"), context.seed),
        attention_(unit_, params.integer("page")) {}

  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override {
    attention_.begin(step.step);
    for (int head = 0; head < unit_.group_size(); ++head) {
      std::vector<float>& logits = attention_.logits();
      codebooks_.multiply(unit_.query[head].row(step.step).data(), attention_.first(),
                          step.step + 1, logits);
      for (float& logit : logits) logit *= unit_.scale;
      attention_.add(head);
    }
    choose_best(step.candidates, attention_.pages(), count_, chosen);
  }

 private:
  const Unit& unit_;
  std::size_t count_;
  KeyCodebooks codebooks_;
  ApproximateAttention attention_;
};

/// Codes of all tokens, and the centroids at the size of keys.
std::int64_t pq_bytes(const Params& params, const Unit& unit) {
  const std::int64_t bits = params.integer("bits");
  const std::int64_t code_bits = std::int64_t{unit.num_tokens()} * params.integer("groups") * bits;
  return (code_bits + 7) / 8 + (std::int64_t{1} << bits) * unit.key.cols() * unit.key_bytes;
}

}  // namespace

SelectorInfo pq_selector() {
  return {.name = "pq",
          .chooses =
              "the pages with the largest attention as product-quantised keys give it, "
              "summed over the query heads of the group",
          .source = "PQCache (Zhang et al. 2024), section 3",
          .differences =
              "codebooks are trained on the prompt; in stream mode, which has none, on "
              "the whole text. First and most recent tokens have no place of their own "
              "but the step's page",
          .params = {number_param(),
                     Param::integer("groups", 2, 1, 1024, "parts that keys are cut into"),
                     Param::integer("bits", 6, 1, 12, "of a part's code"), page_param()},
          .make = make_selector<PQ>,
          .summary_bytes = pq_bytes,
          .pair_nanoseconds = 14};
}

}  // namespace kvsim
