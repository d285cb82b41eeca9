#include "sim/running/running_caches.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/model_shape.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "python/engine/scope_name.h"
#include "sim/base/amount.h"
#include "sim/base/errors.h"
#include "sim/replay/bytes_budget.h"
#include "sim/results/policy_code.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/policy_files.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

using Rows = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

/// `options`: those of RequestOptions that bear on a replay, besides sequence, prompt_length,
/// num_tokens.
struct RunningRequest {
  RunningText text;
  ReplayOptions options;
  AllocationSpec allocation = Allocation::uniform;
};

RunningRequest running_request_of(const nb::dict& given) {
  RunningRequest found;
  found.text = {.sequence = take<std::string>(given, "sequence", "sequence"),
                .prompt_length = take<int>(given, "prompt_length", 0),
                .num_tokens = take<int>(given, "num_tokens", 0)};
  require(found.text.prompt_length >= 0,
          fmt::format("prompt_length: expected 0 or more, found {}", found.text.prompt_length));
  nb::dict rest;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name != "sequence" && name != "prompt_length" && name != "num_tokens") rest[key] = value;
  }
  const Options options(rest);
  const SweepRequest request = request_of(options.request);
  found.allocation = allocation_of(options.request);
  found.options.protocol = request.protocol;
  found.options.seed = static_cast<std::uint64_t>(request.seed);
  return found;
}

/// What every KV head of a layer may keep. A size is as many tokens as fit in each layer, the mean
/// of which is then the budget of the model.
Configuration configuration_of(const Spec& policy, const std::string& text, const ModelShape& shape,
                               const RunningRequest& request) {
  const std::vector<Amount> amounts = parse_budgets(text);
  require(amounts.size() == 1, fmt::format("budget: expected one, found {}", amounts.size()));
  const Amount& amount = amounts.front();
  const Protocol& protocol = request.options.protocol;
  if (amount.is_share() && protocol.mode == Mode::stream) {
    throw UsageError(
        fmt::format("budget {}: in stream mode the length of the text is not known; give tokens "
                    "or bytes, or use mode prefill, where it is a share of the prompt",
                    text));
  }
  std::vector<int> budgets;
  for (const ModelLayer& layer : shape.layers) {
    const int budget = kvsim::budget_of(
        amount, policy,
        {layer.shape.head_dim, layer.shape.value_dim, shape.element_bytes, shape.element_bytes},
        protocol, request.text.num_tokens, request.text.prompt_length);
    budgets.insert(budgets.end(), static_cast<std::size_t>(layer.shape.num_kv_heads), budget);
  }
  if (std::set(budgets.begin(), budgets.end()).size() == 1) return {policy, budgets.front()};
  const double sum = std::accumulate(budgets.begin(), budgets.end(), 0.0);
  const int mean = static_cast<int>(std::lround(sum / static_cast<double>(budgets.size())));
  if (policy.allocation() != Allocation::uniform ||
      policy.rules({.budget = mean}).scope == Scope::model) {
    throw UsageError(
        fmt::format("budget {}: {} has one budget for all layers, of which some have vectors of "
                    "other sizes; give tokens",
                    text, policy.text()));
  }
  return {policy, mean, std::move(budgets)};
}

/// `budgets`: [layers][KV heads], or None. Python owns what it returns.
RunningCaches* make(const std::string& policy, const std::string& budget, const nb::dict& shape,
                    const nb::dict& options,
                    const std::optional<std::vector<std::vector<int>>>& budgets) {
  const RunningRequest request = running_request_of(options);
  ModelShape of_model = shape_of(shape);
  Spec spec = Spec(policy).allocated(request.allocation);
  if (spec.policy().reads_scorer) spec = with_policy_file_hash(spec);
  Configuration configuration = configuration_of(spec, budget, of_model, request);
  if (budgets) {
    configuration.budgets.clear();
    require(budgets->size() == of_model.layers.size(), "budgets: expected a list per layer");
    for (std::size_t i = 0; i < budgets->size(); ++i) {
      const std::vector<int>& layer = (*budgets)[i];
      require(
          std::ssize(layer) == of_model.layers[i].shape.num_kv_heads && std::ranges::min(layer) > 0,
          "budgets: expected 1 token or more per KV head");
      configuration.budgets.insert(configuration.budgets.end(), layer.begin(), layer.end());
    }
  }
  return std::make_unique<RunningCaches>(std::move(configuration), std::move(of_model),
                                         request.text, request.options)
      .release();
}

LayerRows rows_of(const Rows& query, const Rows& key, const Rows& value, std::size_t member,
                  int first, int count) {
  const auto part = [&](const Rows& rows) {
    return rows.data() + member * rows.shape(1) * rows.shape(2) * rows.shape(3) +
           static_cast<std::size_t>(first) * rows.shape(3);
  };
  return {.count = count,
          .query = part(query),
          .key = part(key),
          .value = part(value),
          .query_stride = query.shape(2) * query.shape(3),
          .key_stride = key.shape(2) * key.shape(3),
          .value_stride = value.shape(2) * value.shape(3)};
}

void check_members(const std::vector<RunningCaches*>& members) {
  const std::set<RunningCaches*> distinct(members.begin(), members.end());
  require(distinct.size() == members.size() && !distinct.contains(nullptr),
          "members: expected caches, each once");
}

void check_rows(const std::vector<RunningCaches*>& members, int layer, const Rows& query,
                const Rows& key, const Rows& value, const std::vector<int>& first,
                const std::vector<int>& count) {
  check_members(members);
  const auto is_shape = [&](const Rows& rows, int heads, int dim) {
    return rows.shape(0) == members.size() && rows.shape(2) == query.shape(2) &&
           static_cast<int>(rows.shape(1)) == heads && static_cast<int>(rows.shape(3)) == dim;
  };
  require(first.size() == members.size() && count.size() == members.size(),
          fmt::format("first, count: expected {} each", members.size()));
  for (std::size_t i = 0; i < members.size(); ++i) {
    require(first[i] >= 0 && count[i] >= 0 &&
                std::int64_t{first[i]} + count[i] <= static_cast<std::int64_t>(query.shape(2)),
            fmt::format("first, count: expected rows in 0..{}", query.shape(2)));
  }
  for (const RunningCaches* member : members) {
    const LayerShape& shape = member->layer(layer).shape;
    if (is_shape(query, shape.num_query_heads, shape.head_dim) &&
        is_shape(key, shape.num_kv_heads, shape.head_dim) &&
        is_shape(value, shape.num_kv_heads, shape.value_dim))
      continue;
    throw UsageError(fmt::format("query, key, value: expected [{}, {} or {}, tokens, {} or {}]",
                                 members.size(), shape.num_query_heads, shape.num_kv_heads,
                                 shape.head_dim, shape.value_dim));
  }
}

/// New tokens of a layer: rows first[b] .. first[b] + count[b] - 1 of member b. Returns None, or
/// the outputs [members, rows, query heads, value_dim], 0 in rows that are no tokens. `selected`:
/// None, or per member what its rows select, [count, K].
nb::object advance(const std::vector<RunningCaches*>& members, int layer, const Rows& query,
                   const Rows& key, const Rows& value, const std::vector<int>& first,
                   const std::vector<int>& count, bool wants_outputs,
                   const std::optional<nb::list>& selected) {
  check_rows(members, layer, query, key, value, first, count);
  std::vector<std::shared_ptr<const SelectedTokens>> selections(members.size());
  for (std::size_t i = 0; selected && i < members.size(); ++i) {
    selections[i] =
        selected_of((*selected)[i], fmt::format("layer {}", layer), members[i]->num_tokens(layer));
  }
  std::vector<float> outputs;
  std::vector<std::size_t> shape;
  if (wants_outputs) {
    shape = {query.shape(0), query.shape(2), query.shape(1), value.shape(3)};
    outputs.resize(shape[0] * shape[1] * shape[2] * shape[3]);
  }
  const auto advance_one = [&](std::size_t i, const std::atomic<bool>* interrupted) {
    float* to = nullptr;
    if (wants_outputs) {
      to = outputs.data() +
           (i * shape[1] + static_cast<std::size_t>(first[i])) * shape[2] * shape[3];
    }
    LayerRows rows = rows_of(query, key, value, i, first[i], count[i]);
    rows.selected = selections[i].get();
    members[i]->advance(layer, rows, to, interrupted);
  };
  if (query.shape(2) == 1) {  // threads would cost more than they save
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < members.size(); ++i) advance_one(i, nullptr);
  } else {
    run_engine(nb::none(), [&](Work& state) {
      in_parallel(members.size(), default_threads(), state.interrupted,
                  [&](std::size_t i) { advance_one(i, &state.interrupted); });
    });
  }
  if (!wants_outputs) return nb::none();
  const float* numbers = outputs.data();
  return array_over(numbers, shape, std::move(outputs));
}

/// New tokens of a layer that reads the cache of another one, as of advance().
void add_queries(const std::vector<RunningCaches*>& members, int layer, const Rows& query,
                 const std::vector<int>& first, const std::vector<int>& count) {
  check_members(members);
  require(query.shape(0) == members.size() && first.size() == members.size() &&
              count.size() == members.size(),
          fmt::format("query, first, count: expected those of {} members", members.size()));
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int heads = members[i]->reader(layer).num_query_heads;
    require(static_cast<int>(query.shape(1)) == heads && first[i] >= 0 && count[i] >= 0 &&
                std::int64_t{first[i]} + count[i] <= static_cast<std::int64_t>(query.shape(2)),
            fmt::format("query: expected {} heads and rows in 0..{}", heads, query.shape(2)));
    members[i]->add_queries(layer,
                            {.count = count[i],
                             .query = query.data() + i * heads * query.shape(2) * query.shape(3) +
                                      static_cast<std::size_t>(first[i]) * query.shape(3),
                             .query_stride = query.shape(2) * query.shape(3)});
  }
}

void end_forward(const std::vector<RunningCaches*>& members) {
  check_members(members);
  const bool any_waits = std::any_of(members.begin(), members.end(),
                                     [](const RunningCaches* member) { return member->waits(); });
  if (!any_waits) return;
  run_engine(nb::none(), [&](Work& state) {
    in_parallel(members.size(), default_threads(), state.interrupted,
                [&](std::size_t i) { members[i]->end_forward(&state.interrupted); });
  });
}

/// int32 [KV heads, tokens so far].
nb::object evicted_after(const RunningCaches& caches, int layer) {
  std::vector<std::int32_t> numbers;
  std::size_t heads = 0;
  for (const CacheUsage& usage : caches.usage(layer)) {
    numbers.insert(numbers.end(), usage.evicted_after.begin(), usage.evicted_after.end());
    ++heads;
  }
  const std::int32_t* data = numbers.data();
  const std::vector<std::size_t> shape{heads, numbers.size() / heads};
  return array_over(data, shape, std::move(numbers));
}

std::size_t peak_tokens(const RunningCaches& caches) {
  std::size_t most = 0;
  for (const ModelLayer& layer : caches.shape().layers) {
    for (const CacheUsage& usage : caches.usage(layer.index))
      most = std::max(most, usage.peak_tokens);
  }
  return most;
}

std::size_t cache_bytes(const RunningCaches& caches) {
  std::size_t bytes = 0;
  for (const ModelLayer& layer : caches.shape().layers) {
    for (const CacheUsage& usage : caches.usage(layer.index)) bytes += usage.peak_bytes;
  }
  return bytes;
}

}  // namespace

void bind_running_caches(nb::module_& module) {
  nb::class_<RunningCaches>(module, "RunningCaches")
      .def(nb::new_(&make), "policy"_a, "budget"_a, "shape"_a, "options"_a,
           "budgets"_a.none() = nb::none())
      .def("add_text", &RunningCaches::add_text, "texts"_a)
      .def("num_tokens", &RunningCaches::num_tokens, "layer"_a)
      .def("evicted_after", &evicted_after, "layer"_a)
      .def_prop_ro("peak_tokens", &peak_tokens)
      .def_prop_ro("cache_bytes", &cache_bytes)
      .def_prop_ro("is_plain", &RunningCaches::is_plain)
      .def_prop_ro("rotates_to_slots", &RunningCaches::rotates_to_slots)
      .def_prop_ro("takes_single_steps", &RunningCaches::takes_single_steps)
      .def_prop_ro("scope", [](const RunningCaches& caches) { return scope_name(caches.scope()); })
      .def_prop_ro("policy", [](const RunningCaches& caches) { return caches.policy().text(); })
      .def_prop_ro("policy_code",
                   [](const RunningCaches& caches) { return policy_code(caches.policy()); });
  module.def("advance", &advance, "members"_a, "layer"_a, "query"_a, "key"_a, "value"_a, "first"_a,
             "count"_a, "wants_outputs"_a, "selected"_a.none() = nb::none());
  module.def("add_queries", &add_queries, "members"_a, "layer"_a, "query"_a, "first"_a, "count"_a);
  module.def("end_forward", &end_forward, "members"_a);
}

}  // namespace kvsim::python
