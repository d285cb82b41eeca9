#include "sim/tiers/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

#include "sim/base/interrupt.h"
#include "sim/base/random_bits.h"
#include "sim/protocol/budget.h"
#include "sim/tiers/replace_pages.h"

namespace kvsim {
namespace {

using Followed = std::vector<std::unique_ptr<AttendedPages>>;

// Selectors with pages of one size share the sums over them.
Followed follow(ReplayedUnit& unit, std::span<const SelectorSpec> selectors, bool sums_mass,
                std::uint64_t seed) {
  Followed followed;
  std::map<int, std::vector<PageAttention>> attention;  // by page
  for (const SelectorSpec& selector : selectors) {
    followed.push_back(std::make_unique<AttendedPages>(selector, unit, sums_mass, seed));
    attention.try_emplace(selector.page(), kBlockSteps,
                          PageAttention(unit.unit(), selector.page()));
  }
  const int num_tokens = unit.unit().num_tokens();
  for (int step = 0; step < num_tokens; step += kBlockSteps) {
    const int num_steps = std::min(kBlockSteps, num_tokens - step);
    // A prompt attends in full, which only accumulated attention depends on.
    if (!sums_mass && step + num_steps <= unit.steps().first()) continue;
    poll_interrupt();
    unit.compute(step, num_steps);
    for (auto& [page, rows] : attention) {
      for (int row = 0; row < num_steps; ++row) rows[row].sum(unit.block(), row);
    }
    for (std::size_t i = 0; i < selectors.size(); ++i) {
      followed[i]->add_block(attention.at(selectors[i].page()));
    }
  }
  return followed;
}

void check_bound(const FetchedAt& cache, const Misses& least, const std::string& where) {
  if (cache.misses.sum >= least.sum) return;
  throw std::logic_error(fmt::format(
      "{}: expected {} to miss no less than belady with {} tokens resident, found {} misses "
      "against {}; please report this, with the trace",
      where, name_of(cache.replace), cache.resident.tokens, cache.misses.sum, least.sum));
}

/// As of replays (unit_seed(), which stands above this room): it depends on the unit alone.
std::uint64_t seed_of(const Unit& unit, std::uint64_t seed) {
  const std::uint64_t of_sequence = random_bits(seed, unit.name.sequence);
  const std::uint64_t of_layer =
      random_bits(of_sequence, static_cast<std::uint64_t>(unit.name.layer));
  return random_bits(of_layer, static_cast<std::uint64_t>(unit.name.kv_head));
}

std::string described(const UnitName& name) {
  return fmt::format("sequence {}, layer {}, KV head {}", name.sequence, name.layer, name.kv_head);
}

std::vector<FetchedAt> replace_all(const PageChoices& choices,
                                   const std::vector<ResidentSize>& sizes,
                                   const FetchOptions& options, const std::string& where) {
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

}  // namespace

double hit_rate(const SelectionQuality& quality, const Misses& misses) {
  if (quality.accesses == 0) return 1;
  return static_cast<double>(quality.accesses - misses.sum) / static_cast<double>(quality.accesses);
}

std::vector<Fetches> fetches_of(const Unit& unit, std::span<const SelectorSpec> selectors,
                                const FetchOptions& options, const Backend& backend) {
  const InterruptScope scope(options.interrupted);
  const bool sums_mass = std::find(options.replace.begin(), options.replace.end(),
                                   Replacement::mass) != options.replace.end();
  const Protocol protocol{.mode = options.protocol.mode};
  ReplayedUnit replayed(unit, backend, protocol);
  const Followed followed = follow(replayed, selectors, sums_mass, seed_of(unit, options.seed));
  std::vector<Fetches> fetches;
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    const PageChoices& choices = followed[i]->choices();
    const int page = choices.page;
    const int attended = selectors[i].attended().value_or(choices.most_chosen() * page);
    const std::string where = described(unit.name);
    const std::vector<ResidentSize> sizes =
        options.curve ? all_resident_sizes(page, attended, unit.num_tokens())
                      : resident_sizes(options.resident, selectors[i], attended,
                                       protocol.base(unit.num_tokens(), unit.prompt_length), where);
    const std::int64_t token_bytes =
        unit.key.cols() * unit.key_bytes + unit.value.cols() * unit.value_bytes;
    fetches.push_back({.quality = followed[i]->quality(),
                       .page_bytes = page * token_bytes,
                       .caches = replace_all(choices, sizes, options, where),
                       .choices = options.keep_choices ? choices : PageChoices()});
  }
  return fetches;
}

}  // namespace kvsim
