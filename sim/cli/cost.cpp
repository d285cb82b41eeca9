#include "analysis/cost/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>

#include "sim/base/errors.h"
#include "sim/cli/fetch_cost.h"
#include "sim/cli/print_csv.h"
#include "sim/cli/session.h"
#include "sim/results/table.h"

namespace kvsim::cli {
namespace {

constexpr int kMostTokens = 10'000'000;
constexpr int kMostOfAShape = 65'536;
constexpr int kMostDevices = 65'536;
constexpr double kMostParameters = 1e15;
constexpr double kMostBatch = 1e9;

template <class Entry>
std::vector<std::string> names_of(std::span<const Entry> table) {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.push_back(entry.name);
  return names;
}

template <class Entry>
const Entry& named(std::span<const Entry> table, const po::variables_map& values,
                   const std::string& option) {
  const std::vector<std::string> names = names_of(table);
  const std::string name = choice_from(values, option, names);
  return table[std::find(names.begin(), names.end(), name) - names.begin()];
}

po::options_description cost_options() {
  po::options_description options("Options");
  const auto add = [&](const char* name, const auto* semantic, const std::string& help) {
    options.add_options()(name, semantic, help.c_str());
  };
  const auto number = [](double initial) {
    return po::value<double>()->default_value(initial, fmt::format("{}", initial));
  };
  const auto names = [](const auto table) {
    return fmt::format("{}", fmt::join(names_of(table), ", "));
  };
  add("model", po::value<std::string>(), names(model_shapes()));
  add("layers", po::value<double>(),
      "in place of --model, with the next four: a shape of your own");
  add("kv-heads", po::value<double>(), "its KV heads");
  add("query-heads", po::value<double>(), "its query heads, if more than the KV heads");
  add("head-dim", po::value<double>(), "its size of a key and a value");
  add("parameters", po::value<double>(), "its parameters, as in 7e9");
  add("device", po::value<std::string>()->default_value("a100"), names(devices()));
  add("devices", number(1), "so many of them");
  add("prompt", number(1024), "tokens of a prompt");
  add("generate", number(1024), "tokens generated for each");
  add("batch", po::value<double>(), "sequences at once; the largest that fits, if not given");
  add("budget", po::value<std::string>()->default_value("100%"),
      "what a cache may keep: tokens (256), shares of prompt + generate (20%), bytes per KV head "
      "(64KiB), or several");
  add("fetch", po::value<std::string>(),
      "a result file of kvsim fetch, in place of --budget: the cache lies in host memory, and a "
      "step fetches what the file's rows say, of each selector, size and replacement");
  add("kv-bits", number(16), "of a key's or value's element; 4.5: 4 bits, and scales for every 64");
  add("weight-bits", number(16), "of a parameter");
  add("weights", po::value<std::string>(), "size of the weights instead, as in 352GiB or 352GB");
  add("offload-weights", number(0), "share of the weights in host memory, 0..1");
  add("offload-cache", number(0), "share of the cache in host memory, 0..1");
  add("host-memory", po::value<std::string>(), "for both, as in 208GB; no limit, if not given");
  add("format", po::value<std::string>()->default_value("table"), "table, csv or json");
  return options;
}

double number_from(const po::variables_map& values, const std::string& option, double least,
                   double most) {
  const double number = values[option].as<double>();
  if (!(number >= least && number <= most)) {
    throw UsageError(fmt::format("--{}: expected {}..{}, found {}", option, least, most, number));
  }
  return number;
}

template <class Whole = int>
Whole whole_from(const po::variables_map& values, const std::string& option, double most) {
  const double number = number_from(values, option, 1, most);
  if (number == std::floor(number)) return static_cast<Whole>(number);
  throw UsageError(fmt::format("--{}: expected a whole number, found {}", option, number));
}

std::optional<double> bytes_from(const po::variables_map& values, const std::string& option) {
  if (values.count(option) == 0) return std::nullopt;
  const auto text = values[option].as<std::string>();
  double size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const std::string_view unit(end, text.data() + text.size() - end);
  if (error == std::errc() && size > 0 && std::isfinite(size)) {
    if (unit == "GB") return size * 1e9;
    if (unit == "GiB") return size * kGiB;
  }
  throw UsageError(
      fmt::format("--{}: expected a size such as 208GB or 208GiB, found '{}'", option, text));
}

ModelShape own_shape_from(const po::variables_map& values) {
  for (const char* option : {"layers", "kv-heads", "head-dim", "parameters"}) {
    if (values.count(option) > 0) continue;
    throw UsageError(fmt::format(
        "expected --model NAME, or --{} and the rest of a shape of your own (kvsim cost --help)",
        option));
  }
  const int kv_heads = whole_from(values, "kv-heads", kMostOfAShape);
  const int query_heads = values.count("query-heads") == 0
                              ? kv_heads
                              : whole_from(values, "query-heads", kMostOfAShape);
  if (query_heads % kv_heads != 0) {
    throw UsageError(fmt::format("--query-heads: expected a multiple of the {} KV heads, found {}",
                                 kv_heads, query_heads));
  }
  return {"own",
          whole_from(values, "layers", kMostOfAShape),
          query_heads,
          kv_heads,
          whole_from(values, "head-dim", kMostOfAShape),
          whole_from<std::int64_t>(values, "parameters", kMostParameters)};
}

ModelShape model_from(const po::variables_map& values) {
  if (values.count("model") == 0) return own_shape_from(values);
  for (const char* option : {"layers", "kv-heads", "query-heads", "head-dim", "parameters"}) {
    if (values.count(option) == 0) continue;
    throw UsageError(fmt::format("--model and --{}: a named shape or one of your own", option));
  }
  return named(model_shapes(), values, "model");
}

Deployment deployment_from(const po::variables_map& values) {
  Deployment result{.model = model_from(values),
                    .device = named(devices(), values, "device"),
                    .devices = whole_from(values, "devices", kMostDevices),
                    .weight_bits = number_from(values, "weight-bits", 1, 64),
                    .kv_bits = number_from(values, "kv-bits", 1, 64),
                    .weight_bytes = bytes_from(values, "weights"),
                    .offloaded_weights = number_from(values, "offload-weights", 0, 1),
                    .offloaded_cache = number_from(values, "offload-cache", 0, 1)};
  if (const auto host = bytes_from(values, "host-memory")) result.host_memory = *host;
  return result;
}

/// The batch of the request, else the largest that fits.
std::int64_t batch_from(const po::variables_map& values, const Deployment& at,
                        std::optional<std::int64_t> largest) {
  if (values.count("batch") > 0) return whole_from<std::int64_t>(values, "batch", kMostBatch);
  if (!largest) {
    throw UsageError(
        "expected --batch or --host-memory: with all of the cache in host memory, nothing here "
        "limits the batch");
  }
  if (*largest > 0) return *largest;
  throw UsageError(fmt::format(
      "the weights of {}, {:.1f} GiB, and one sequence's cache do not fit on {} x {} of {:.2f} GiB "
      "and in the host memory given: use more --devices, fewer --weight-bits or --kv-bits, or "
      "--offload-weights and --offload-cache",
      at.model.name, weight_bytes(at) / kGiB, at.devices, at.device.name, at.device.memory / kGiB));
}

/// The tokens of a budget, of a size those that fit into it.
int tokens_of(const Amount& budget, const Deployment& at, int length) {
  if (!budget.is_bytes()) return budget.of(length);
  const double per_token = 2 * at.model.head_dim * at.kv_bits / 8;
  const double tokens = std::floor(budget.value() / per_token);
  if (tokens >= 1 && tokens <= std::numeric_limits<int>::max()) return static_cast<int>(tokens);
  throw UsageError(
      fmt::format("--budget {}: expected room for 1..2147483647 tokens of {} bytes per KV head, "
                  "found {:.0f}",
                  budget.written(), per_token, tokens));
}

/// The quantities at one budget.
std::vector<Quantity> answer(const po::variables_map& values, const Deployment& at, Workload work,
                             const Amount& budget) {
  work.budget = tokens_of(budget, at, work.prompt + work.generate);
  const auto largest = largest_batch(at, work.tokens());
  work.batch = batch_from(values, at, largest);
  const CostEstimate time = estimate(at, work);
  const Busy last = decode_step(at, work.batch, work.tokens());
  const double per_token = kv_bytes_per_token(at.model, at.kv_bits);
  const double cache = per_token * work.tokens() * static_cast<double>(work.batch);
  return {{"budget_request", budget.written()},
          {"model", at.model.name},
          {"device", at.device.name},
          {"devices", whole(at.devices)},
          {"prompt", whole(work.prompt)},
          {"generate", whole(work.generate)},
          {"offloaded_weights", at.offloaded_weights},
          {"offloaded_cache", at.offloaded_cache},
          {"weight_bytes", whole(weight_bytes(at))},
          {"kv_bytes_per_token", whole(per_token)},
          {"cached_tokens", whole(work.tokens())},
          {"largest_batch", largest ? Value(*largest) : std::monostate()},
          {"batch", work.batch},
          {"fits", !largest || work.batch <= *largest ? "yes" : "no"},
          {"cache_bytes", whole(cache)},
          {"prompt_seconds", time.prompt_seconds},
          {"decode_seconds", time.decode_seconds},
          {"last_step_seconds", last.seconds()},
          {"last_step_bound", bound_name(last.bound())},
          {"tokens_per_second", time.tokens_per_second}};
}

/// Bytes as 4.5000 MiB or 66.00 GiB, other numbers unchanged.
std::string readable(std::string_view name, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.5g}", *number);
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr) return "-";
  if (name.find("bytes") == name.npos) return fmt::format("{}", *number);
  const double size = static_cast<double>(*number) / kGiB;
  return size < 1 ? fmt::format("{:.4f} MiB", size * 1024) : fmt::format("{:.2f} GiB", size);
}

Table to_rows(const std::vector<std::vector<Quantity>>& answers) {
  Table table;
  for (const Quantity& quantity : answers.front()) table.columns.emplace_back(quantity.name);
  for (const auto& quantities : answers) {
    auto& row = table.rows.emplace_back();
    for (const Quantity& quantity : quantities) row.push_back(quantity.value);
  }
  return table;
}

/// The transposed table: one column per budget.
Table to_columns(const Table& rows) {
  Table table;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    std::vector<Value> line{rows.columns[i]};
    for (const auto& row : rows.rows) line.emplace_back(readable(rows.columns[i], row[i]));
    table.rows.push_back(std::move(line));
  }
  for (const Value& heading : table.rows.front()) {
    table.columns.push_back(std::get<std::string>(heading));
  }
  table.rows.erase(table.rows.begin());
  return table;
}

int print(const std::vector<std::vector<Quantity>>& answers, const std::string& format) {
  const Table rows = to_rows(answers);
  if (format == "csv") {
    print_csv(rows);
  } else if (format == "json") {
    write_json(std::cout, rows);
  } else {
    write_aligned(std::cout, to_columns(rows));
  }
  return 0;
}

}  // namespace

int run_cost(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, cost_options(), {});
  if (!values) return 0;
  const std::string format = choice_from(*values, "format", {"table", "csv", "json"});
  const Deployment deployment = deployment_from(*values);
  const Workload workload{.prompt = whole_from(*values, "prompt", kMostTokens),
                          .generate = whole_from(*values, "generate", kMostTokens)};
  std::vector<std::vector<Quantity>> answers;
  if (values->count("fetch") > 0) {
    for (const char* option : {"budget", "offload-cache"}) {
      if ((*values)[option].defaulted()) continue;
      throw UsageError(
          fmt::format("--fetch and --{}: the file says what is on the device", option));
    }
    for (const FetchMean& mean : fetch_means((*values)["fetch"].as<std::string>())) {
      const auto largest =
          largest_batch(deployment, mean.tiers, workload.prompt + workload.generate);
      Workload work = workload;
      work.batch = batch_from(*values, deployment, largest);
      answers.push_back(fetch_quantities(deployment, work, mean, largest));
    }
    return print(answers, format);
  }
  for (const Amount& budget : parse_budgets((*values)["budget"].as<std::string>())) {
    answers.push_back(answer(*values, deployment, workload, budget));
  }
  return print(answers, format);
}

}  // namespace kvsim::cli
