#include "sim/tiers/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

#include "sim/base/interrupt.h"
#include "sim/protocol/budget.h"
#include "sim/tiers/replace_pages.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

/// The selectors on one unit.
class UnitChoices {
 public:
  UnitChoices(const Unit& unit, std::span<const SelectorSpec> selectors,
              const FetchOptions& options, const Backend& backend)
      : unit_(unit, backend, {.mode = options.protocol.mode}),
        selectors_(selectors),
        sums_mass_(std::count(options.replace.begin(), options.replace.end(), Replacement::mass) >
                   0) {
    for (const SelectorSpec& selector : selectors) {
      followed_.push_back(std::make_unique<AttendedPages>(selector, unit_, sums_mass_,
                                                          unit_seed(options.seed, unit.name)));
      attention_.try_emplace(selector.page(), kBlockSteps, PageAttention(unit, selector.page()));
    }
  }

  void add_block(int step, int num_steps) {
    // A prompt attends in full, which only accumulated attention depends on.
    if (!sums_mass_ && step + num_steps <= unit_.steps().first()) return;
    poll_interrupt();
    unit_.compute(step, num_steps);
    for (auto& [page, rows] : attention_) {
      for (int row = 0; row < num_steps; ++row) rows[row].sum(unit_.block(), row);
    }
    for (std::size_t i = 0; i < selectors_.size(); ++i) {
      followed_[i]->add_block(attention_.at(selectors_[i].page()));
    }
  }

  const MeasuredSteps& steps() const { return unit_.steps(); }
  const AttendedPages& of(std::size_t selector) const { return *followed_[selector]; }

 private:
  ReplayedUnit unit_;
  std::span<const SelectorSpec> selectors_;
  bool sums_mass_;
  std::vector<std::unique_ptr<AttendedPages>> followed_;
  // By page: selectors with pages of one size share the sums over them.
  std::map<int, std::vector<PageAttention>> attention_;
};

using LayerChoices = std::vector<std::unique_ptr<UnitChoices>>;

/// Of the block: [selector][unit].
std::vector<std::vector<const OutputDeltas*>> deltas_of(const LayerChoices& units,
                                                        std::size_t num_selectors) {
  std::vector<std::vector<const OutputDeltas*>> deltas(num_selectors);
  for (std::size_t i = 0; i < num_selectors; ++i) {
    for (const auto& unit : units) deltas[i].push_back(&unit->of(i).deltas());
  }
  return deltas;
}

void check_bound(const FetchedAt& cache, const Misses& least, const std::string& where) {
  if (cache.misses.sum >= least.sum) return;
  throw std::logic_error(fmt::format(
      "{}: expected {} to miss no less than belady with {} tokens resident, found {} misses "
      "against {}; please report this, with the trace",
      where, name_of(cache.replace), cache.resident.tokens, cache.misses.sum, least.sum));
}

std::string described(const UnitName& name) {
  return fmt::format("sequence {}, layer {}, KV head {}", name.sequence, name.layer, name.kv_head);
}

std::vector<FetchedAt> replace_all(const PageChoices& choices,
                                   const std::vector<ResidentSize>& sizes,
                                   const FetchOptions& options, const std::string& where) {
  if (sizes.empty()) return {};
  std::vector<int> places;
  for (const ResidentSize& size : sizes) places.push_back(size.places(choices.page));
  const auto misses_of = [&](Replacement replacement) {
    return replace_pages(choices, replacement, places).over(choices.steps());
  };
  const std::vector<Misses> least = misses_of(Replacement::belady);
  std::vector<FetchedAt> caches(sizes.size() * options.replace.size());
  for (std::size_t r = 0; r < options.replace.size(); ++r) {
    const Replacement replacement = options.replace[r];
    const std::vector<Misses> misses =
        replacement == Replacement::belady ? least : misses_of(replacement);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      FetchedAt& cache = caches[i * options.replace.size() + r];
      cache = {sizes[i], replacement, misses[i]};
      check_bound(cache, least[i], where);
    }
  }
  return caches;
}

Fetches fetches_of(const Unit& unit, const AttendedPages& followed, const SelectorSpec& selector,
                   const FetchOptions& options) {
  const PageChoices& choices = followed.choices();
  const int page = choices.page;
  const int attended = selector.attended().value_or(choices.most_chosen() * page);
  const std::string where = described(unit.name);
  const Protocol protocol{.mode = options.protocol.mode};
  const std::vector<ResidentSize> sizes =
      options.curve ? all_resident_sizes(page, attended, unit.num_tokens())
                    : resident_sizes(options.resident, selector, attended,
                                     protocol.base(unit.num_tokens(), unit.prompt_length), where);
  const std::int64_t token_bytes =
      unit.key.cols() * unit.key_bytes + unit.value.cols() * unit.value_bytes;
  return {.quality = followed.quality(),
          .page_bytes = page * token_bytes,
          .caches = replace_all(choices, sizes, options, where),
          .choices = options.keep_choices ? choices : PageChoices()};
}

}  // namespace

double hit_rate(const SelectionQuality& quality, const Misses& misses) {
  if (quality.accesses == 0) return 1;
  return static_cast<double>(quality.accesses - misses.sum) / static_cast<double>(quality.accesses);
}

LayerFetches fetches_of(std::span<const Unit> units, bool is_whole,
                        std::span<const SelectorSpec> selectors, const FetchOptions& options,
                        const Backend& backend) {
  const InterruptScope scope(options.interrupted);
  LayerChoices choices;
  for (const Unit& unit : units) {
    choices.push_back(std::make_unique<UnitChoices>(unit, selectors, options, backend));
  }
  std::optional<LayerErrors> errors;
  if (is_whole) errors.emplace(units, selectors.size(), choices.front()->steps());
  const int num_tokens = units.front().num_tokens();
  for (int step = 0; step < num_tokens; step += kBlockSteps) {
    const int num_steps = std::min(kBlockSteps, num_tokens - step);
    for (const auto& unit : choices) unit->add_block(step, num_steps);
    if (errors) errors->add_block(step, num_steps, deltas_of(choices, selectors.size()));
  }
  LayerFetches fetches;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    std::vector<Fetches>& of_unit = fetches.units.emplace_back();
    for (std::size_t i = 0; i < selectors.size(); ++i) {
      of_unit.push_back(fetches_of(units[unit], choices[unit]->of(i), selectors[i], options));
    }
  }
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    fetches.errors.push_back(errors ? errors->error(i, 0) : std::nullopt);
  }
  return fetches;
}

}  // namespace kvsim
