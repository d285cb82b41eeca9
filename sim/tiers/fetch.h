#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "sim/outputs/layer_errors.h"
#include "sim/tiers/attended_pages.h"
#include "sim/tiers/miss_counts.h"
#include "sim/tiers/replacement.h"
#include "sim/tiers/resident_sizes.h"

namespace kvsim {

struct FetchOptions {
  Protocol protocol = {};                 ///< its mode alone
  std::vector<Amount> resident = {};      ///< see resident_sizes()
  std::vector<Replacement> replace = {};  ///< `belady` is followed in any case, as the bound
  bool curve = false;                     ///< all_resident_sizes() in place of `resident`
  bool keep_choices = false;              ///< fill Fetches::choices
  std::uint64_t seed = 0;                 ///< of selectors that draw
  const std::atomic<bool>* interrupted = nullptr;  ///< polled; true ends the work
};

/// One selector on one unit at one size under one replacement.
struct FetchedAt {
  ResidentSize resident;
  Replacement replace = Replacement::lru;
  Misses misses;  ///< pages, over the measured steps
};

/// One selector on one unit.
struct Fetches {
  SelectionQuality quality;
  std::int64_t page_bytes = 0;    ///< K and V of a page at the trace's element size
  std::vector<FetchedAt> caches;  ///< by size, then in the order of FetchOptions::replace
  PageChoices choices;            ///< empty unless FetchOptions::keep_choices
};

/// The share of the accesses that hit; 1 without any.
double hit_rate(const SelectionQuality& quality, const Misses& misses);

/// Of the units of a layer.
struct LayerFetches {
  std::vector<std::vector<Fetches>> units;  ///< [unit][selector]
  /// By selector; empty if a KV head is missing, or the projection.
  std::vector<std::optional<ProjectedError>> errors;
};

/// What a device with some of the pages fetches from the host (design, section 17). The full
/// attention is computed once for all selectors; what a selector chooses, and its errors, once for
/// all sizes and replacements. `units` are of one layer; `is_whole`: all its KV heads. Takes O(n²)
/// time per unit and selector. Throws UsageError for a size that is too small, what check_text()
/// throws, and Interrupted; std::logic_error if a replacement has fewer misses than `belady`, which
/// is a fault of kvsim.
LayerFetches fetches_of(std::span<const Unit> units, bool is_whole,
                        std::span<const SelectorSpec> selectors, const FetchOptions& options,
                        const Backend& backend);

}  // namespace kvsim
