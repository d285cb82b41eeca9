// CPU time of every policy, oracle and analysis at its defaults, in exact attention passes over the
// same head.

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "oracle/oracles.h"
#include "sim/attention/attention_blocks.h"
#include "sim/base/amount.h"
#include "tests/bench/program.h"
#include "tests/bench/registry_costs.h"

namespace kvsim::bench {
namespace {

namespace po = boost::program_options;
using nlohmann::json;

struct Options {
  int tokens = 4096;
  int head_dim = 128;
  std::uint64_t seed = 1;
  std::string budget = "20%";
  double least_seconds = 0.3;
  std::vector<std::string> only;
  std::string json_file;
};

// Throws po::error; nothing if the help was asked for.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description description("Options");
  const auto add = [&](const char* name, auto& field, const char* help) {
    using Field = std::remove_reference_t<decltype(field)>;
    description.add_options()(name, po::value<Field>(&field)->default_value(field), help);
  };
  description.add_options()("help,h", "show this");
  add("tokens", options.tokens, "tokens of the head");
  add("head-dim", options.head_dim, "size of a query, a key and a value");
  add("seed", options.seed, "of the head");
  add("budget", options.budget, "of all replays, in tokens or as a share of them");
  add("least-seconds", options.least_seconds, "what took less is repeated; the fastest run counts");
  add("json", options.json_file, "file to write the measurements to");
  description.add_options()("only", po::value(&options.only)->multitoken(),
                            "names of what is run; without it, everything");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(description).positional({}).run(), values);
  po::notify(values);
  if (values.count("help") != 0) {
    std::cout << description;
    return std::nullopt;
  }
  constexpr int kLeastTokens = 32;  // room for a needle and an answer
  if (options.tokens < kLeastTokens || options.head_dim < 2) {
    throw po::error(fmt::format("tokens are at least {}, head-dim is at least 2", kLeastTokens));
  }
  return options;
}

bool is_wanted(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

// Throws po::error if a name is of no entry.
void check_names(const std::vector<std::string>& only, const std::vector<CostEntry>& entries) {
  for (const std::string& name : only) {
    if (std::none_of(entries.begin(), entries.end(),
                     [&](const CostEntry& entry) { return entry.name == name; })) {
      throw po::error(fmt::format("only: expected names of policies and analyses, found {}", name));
    }
  }
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Of the fastest run: what else the machine does makes others slower.
double fastest(const std::function<void()>& work, double least_seconds) {
  const double begin = cpu_seconds();
  double best = 0;
  do {
    const double start = cpu_seconds();
    work();
    const double spent = cpu_seconds() - start;
    best = best == 0 ? spent : std::min(best, spent);
  } while (cpu_seconds() - begin < least_seconds);
  return best;
}

void run(const Options& options) {
  add_oracles();
  const auto backend = make_cpu_backend();
  const Unit head = head_of_costs(options.tokens, options.head_dim, options.seed);
  const int budget = Amount::parse(options.budget, "budget").of(options.tokens);
  const auto exact_pass = [&] {
    for_each_block(head, head.num_tokens(), *backend, [](const AttentionBlock&) {});
  };
  const double exact = fastest(exact_pass, options.least_seconds);
  json report = {{"tokens", options.tokens}, {"head_dim", options.head_dim},
                 {"budget", budget},         {"seed", options.seed},
                 {"exact_seconds", exact},   {"costs", json::array()},
                 {"not_run", json::array()}};
  const std::vector<CostEntry> entries = registry_costs(head, budget, *backend);
  check_names(options.only, entries);
  std::vector<json> costs;
  for (const CostEntry& entry : entries) {
    if (!is_wanted(entry.name, options.only)) continue;
    if (entry.run == nullptr) {
      report["not_run"].push_back(
          {{"kind", entry.kind}, {"name", entry.name}, {"reason", entry.why_not}});
      continue;
    }
    const double seconds = fastest(entry.run, options.least_seconds);
    costs.push_back({{"kind", entry.kind},
                     {"name", entry.name},
                     {"cpu_seconds", seconds},
                     {"passes", seconds / exact}});
  }
  std::stable_sort(costs.begin(), costs.end(), [](const json& a, const json& b) {
    return a["cpu_seconds"].get<double>() > b["cpu_seconds"].get<double>();
  });
  fmt::print("exact attention: {:.4f} s of CPU time\n", exact);
  for (const json& cost : costs) {
    fmt::print("{:<10}{:<24}{:>10.4f} s{:>9.2f} passes\n", cost["kind"].get<std::string>(),
               cost["name"].get<std::string>(), cost["cpu_seconds"].get<double>(),
               cost["passes"].get<double>());
  }
  for (const json& entry : report["not_run"]) {
    fmt::print("{:<10}{:<24}not run: {}\n", entry["kind"].get<std::string>(),
               entry["name"].get<std::string>(), entry["reason"].get<std::string>());
  }
  report["costs"] = costs;
  write_report(report, options.json_file);
}

}  // namespace
}  // namespace kvsim::bench

int main(int argc, char** argv) {
  return kvsim::bench::run_program("costs", [&] {
    if (const auto options = kvsim::bench::parse(argc, argv)) kvsim::bench::run(*options);
  });
}
