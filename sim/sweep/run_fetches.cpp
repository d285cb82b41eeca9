#include "sim/sweep/run_fetches.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "sim/base/errors.h"
#include "sim/sweep/fetch_table.h"
#include "sim/sweep/memory.h"
#include "sim/sweep/read_ahead.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/shards/unit_cost.h"
#include "sim/sweep/whole_layers.h"

namespace kvsim {
namespace {

/// What decides the rows of a unit, for the study that shards belong to.
std::string described(const FetchRequest& fetch) {
  std::string text = fetch.curve ? "fetch curve" : "fetch";
  for (const SelectorSpec& selector : fetch.selectors) text += ' ' + selector.text();
  for (const Amount& amount : fetch.resident) text += ' ' + amount.text();
  for (const Replacement replacement : fetch.replace) text += ' ' + name_of(replacement);
  return text;
}

void check_request(const FetchRequest& fetch) {
  if (!fetch.choices && fetch.curve == !fetch.resident.empty()) {
    throw UsageError("fetch takes either --resident or --curve, which is every size");
  }
  for (const Replacement replacement : fetch.replace) {
    if (!fetch.curve || replacement == Replacement::lru || replacement == Replacement::belady) {
      continue;
    }
    throw UsageError(fmt::format(
        "--curve: expected replacements whose caches nest, lru or belady, found {}; list sizes "
        "with --resident for it",
        name_of(replacement)));
  }
  for (const SelectorSpec& selector : fetch.selectors) {
    for (const Amount& amount : fetch.resident) check_resident(amount, selector);
  }
}

/// The most pages that the steps of a unit choose together.
std::size_t most_accesses(const SelectorSpec& selector, const PlannedUnit& planned) {
  const auto tokens = static_cast<std::size_t>(planned.unit.num_tokens);
  const auto page = static_cast<std::size_t>(selector.page());
  const std::size_t all = tokens * (tokens / page + 1) / 2;
  if (!selector.attended()) return all;
  return std::min(all, tokens * (static_cast<std::size_t>(*selector.attended()) / page));
}

/// Whether its layer has a row in the table `layer_error`.
bool has_layer_error(const FetchPlan& plan, const PlannedUnit& planned) {
  return planned.in_whole_layer && !plan.fetch.choices &&
         layer_info(plan.sweep.traces[planned.trace], planned.unit.name).hidden > 0;
}

ReplayShape replay_shape(const FetchPlan& plan, const PlannedUnit& planned) {
  ReplayShape shape = shape_of(planned.unit);
  shape.configurations = plan.fetch.selectors.size();
  shape.needs_outputs = true;
  if (has_layer_error(plan, planned)) {
    const LayerInfo& layer = layer_info(plan.sweep.traces[planned.trace], planned.unit.name);
    shape.hidden = static_cast<std::size_t>(layer.hidden);
  }
  return shape;
}

std::size_t unit_memory(const FetchPlan& plan, const PlannedUnit& planned) {
  const ReplayShape shape = replay_shape(plan, planned);
  std::size_t memory = replay_memory(shape);
  for (const SelectorSpec& selector : plan.fetch.selectors) {
    // Pages, their next accesses and masses; page sums of each step of a block; keys by component.
    memory += 3 * sizeof(float) * most_accesses(selector, planned);
    const std::size_t pages = shape.num_tokens / static_cast<std::size_t>(selector.page()) + 1;
    const std::size_t sizes = plan.fetch.curve ? pages : plan.fetch.resident.size();
    memory += 32 * pages * (sizeof(double) + sizeof(float));
    memory += shape.num_tokens * (shape.head_dim * sizeof(float) + selector.bytes_per_token());
    const std::size_t chosen =
        selector.attended() ? static_cast<std::size_t>(*selector.attended() / selector.page())
                            : pages / 2;
    constexpr std::size_t kBytesPerRow = 1600;
    memory += sizes * (std::min(chosen, pages) * sizeof(std::int32_t) +
                       plan.fetch.replace.size() * kBytesPerRow);
  }
  return memory;
}

/// An estimate of the time that a unit takes on one core; see shards/README.md.
std::int64_t fetch_nanoseconds(const FetchPlan& plan, const PlannedUnit& planned) {
  const UnitSizes unit = unit_sizes(plan.sweep, planned);
  std::int64_t sum = reading_nanoseconds(unit) + reference_nanoseconds(unit, unit.pairs());
  for (const SelectorSpec& selector : plan.fetch.selectors) {
    sum += unit.pairs() *
           (2 + (2 + selector.info().pair_nanoseconds) * unit.group + 20 / selector.page());
    sum += unit.steps * unit.group * 4 *
           std::min<std::int64_t>(selector.attended().value_or(unit.tokens / 4), unit.tokens / 2);
  }
  return sum;
}

FetchLabels labels_of(const FetchPlan& plan, const PlannedUnit& planned, std::size_t selector,
                      const std::string& device) {
  const Trace& trace = plan.sweep.traces[planned.trace];
  return {.trace_id = trace.id(),
          .unit = planned.unit.name,
          .select = plan.fetch.selectors[selector].text(),
          .mode = plan.sweep.mode(),
          .seed = plan.sweep.request.seed,
          .trace = trace.file().string(),
          .device = device,
          .policy_code = selector_code(plan.fetch.selectors[selector])};
}

std::vector<std::vector<Value>> rows_of(const FetchPlan& plan, const PlannedUnit& planned,
                                        const std::vector<Fetches>& found,
                                        const std::string& device) {
  std::vector<std::vector<Value>> rows;
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto of_selector = fetch_rows(found[i], labels_of(plan, planned, i, device));
    std::move(of_selector.begin(), of_selector.end(), std::back_inserter(rows));
  }
  return rows;
}

/// Of the layer whose last unit is `planned`.
std::vector<std::vector<Value>> layer_rows(const FetchPlan& plan, const PlannedUnit& planned,
                                           const LayerFetches& found, const std::string& device) {
  const int num_layers = num_caches(plan.sweep.traces[planned.trace], planned.unit.name);
  std::vector<std::vector<Value>> rows;
  for (std::size_t i = 0; i < found.errors.size(); ++i) {
    if (!found.errors[i]) continue;
    rows.push_back(selected_layer_row(
        *found.errors[i], plan.fetch.selectors[i], labels_of(plan, planned, i, device),
        found.units.back()[i].quality.steps, planned.unit.num_tokens, num_layers));
  }
  return rows;
}

/// Units that are worked on together: all of a layer with an error of its own, or one.
std::vector<std::span<const PlannedUnit>> layers_of(const FetchPlan& plan) {
  const std::span<const PlannedUnit> units(plan.sweep.units);
  const auto is_same = [&](const PlannedUnit& a, const PlannedUnit& b) {
    return has_layer_error(plan, a) && has_layer_error(plan, b) && a.trace == b.trace &&
           a.unit.name.layer == b.unit.name.layer && a.unit.name.sequence == b.unit.name.sequence;
  };
  std::vector<std::span<const PlannedUnit>> layers;
  for (std::size_t begin = 0; begin < units.size();) {
    std::size_t end = begin + 1;
    while (end < units.size() && is_same(units[begin], units[end])) ++end;
    layers.push_back(units.subspan(begin, end - begin));
    begin = end;
  }
  return layers;
}

}  // namespace

std::size_t FetchPlan::memory_bytes() const {
  const std::vector<std::span<const PlannedUnit>> layers = layers_of(*this);
  std::size_t largest = 0;
  std::size_t ahead = 0;
  for (const std::span<const PlannedUnit> layer : layers) {
    std::size_t work = 0;
    std::size_t read = 0;
    for (const PlannedUnit& unit : layer) {
      work += unit_memory(*this, unit);
      read += read_memory(replay_shape(*this, unit));
    }
    largest = std::max(largest, work);
    ahead = std::max(ahead, read);
  }
  const int threads = sweep.request.threads;
  return largest * std::min(static_cast<std::size_t>(threads), layers.size()) +
         read_ahead_memory(layers.size(), threads, ahead);
}

FetchPlan plan_fetches(SweepRequest request, FetchRequest fetch) {
  check_request(fetch);
  check_evicts_every_step(request.protocol, "a device fetches at every step");
  // A sweep has a policy and a budget; this one keeps everything, and is not replayed.
  request.policies = {Spec("full")};
  request.budgets = {Amount::parse("1.0", "budget")};
  const Shard shard = std::exchange(request.shard, {});
  FetchPlan plan{plan_sweep(std::move(request)), std::move(fetch)};
  keep_shard_of_units(
      plan.sweep, shard,
      {.what = described(plan.fetch), .grain = Grain::layer, .cost = [&](const PlannedUnit& unit) {
         return fetch_nanoseconds(plan, unit);
       }});
  return plan;
}

std::vector<TableSchema> schemas_of(const FetchPlan& plan) {
  std::vector<TableSchema> schemas{fetch_schema()};
  if (std::any_of(plan.sweep.units.begin(), plan.sweep.units.end(),
                  [&](const PlannedUnit& unit) { return has_layer_error(plan, unit); })) {
    schemas.push_back(layer_error_schema());
  }
  return schemas;
}

void run_fetches(const FetchPlan& plan, const Backend& backend,
                 const std::atomic<bool>& interrupted, const FetchesFinished& finished) {
  const SweepRequest& request = plan.sweep.request;
  const std::vector<TableSchema> schemas = schemas_of(plan);
  const std::vector<std::span<const PlannedUnit>> layers = layers_of(plan);
  const FetchOptions options{.protocol = request.protocol,
                             .resident = plan.fetch.resident,
                             .replace = plan.fetch.replace,
                             .curve = plan.fetch.curve,
                             .keep_choices = plan.fetch.choices,
                             .seed = static_cast<std::uint64_t>(request.seed),
                             .interrupted = &interrupted};
  std::mutex reporting;
  const auto read = [&](std::size_t i) {
    std::vector<Unit> units;
    for (const PlannedUnit& planned : layers[i]) {
      const UnitParts parts{.gradients = false, .projection = has_layer_error(plan, planned)};
      units.push_back(plan.sweep.traces[planned.trace].read_unit(planned.unit.name, parts));
    }
    return units;
  };
  const auto follow = [&](std::size_t i, const std::vector<Unit>& units) {
    const std::span<const PlannedUnit> layer = layers[i];
    const LayerFetches found = fetches_of(units, has_layer_error(plan, layer.front()),
                                          plan.fetch.selectors, options, backend);
    const std::lock_guard<std::mutex> lock(reporting);
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      std::vector<TableRows> tables;
      tables.push_back(
          {&schemas[0], rows_of(plan, layer[unit], found.units[unit], backend.device())});
      if (schemas.size() > 1) {
        const bool is_last = unit + 1 == units.size();
        tables.push_back({&schemas[1], is_last
                                           ? layer_rows(plan, layer[unit], found, backend.device())
                                           : std::vector<std::vector<Value>>()});
      }
      finished(layer[unit], found.units[unit], tables);
    }
  };
  in_parallel_with_read(layers.size(), request.threads, interrupted, read, follow);
}

}  // namespace kvsim
