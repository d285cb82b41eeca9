#include <unistd.h>

#include <boost/program_options.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "policies/registry/spec.h"
#include "sim/base/errors.h"
#include "sim/cli/config.h"
#include "sim/sweep/request/lists.h"
#include "sim/sweep/request/request_options.h"
#include "sim/sweep/shards/shard.h"
#include "tests/faults/inputs/inputs.h"

namespace kvsim::faults {
namespace {

void require(bool holds, const std::string& claim) {
  if (!holds) throw std::logic_error(claim);
}

void check_spec(const std::string& text) {
  const std::string canonical = Spec(text).text();
  require(Spec(canonical).text() == canonical, "spec '" + canonical + "' is not its own text");
}

void check_specs(const std::string& text) { static_cast<void>(parse_specs(text)); }

void check_budgets(const std::string& text) {
  for (const Amount& budget : parse_budgets(text)) {
    require(Amount::parse_budget(budget.text(), "budget") == budget,
            "budget '" + budget.text() + "' is not its own text");
    require(budget.is_bytes() ? budget.bytes() >= 1 : budget.of(1000) >= 1,
            "budget '" + budget.text() + "' keeps nothing");
  }
}

void check_indices(const std::string& text) {
  for (const int index : parse_indices(text, "--layers")) require(index >= 0, "a negative index");
}

void check_list(const std::string& text) { static_cast<void>(parse_list(text, "--what")); }

void check_shard(const std::string& text) {
  const Shard shard = parse_shard(text);
  require(shard.index >= 1 && shard.index <= shard.count, "a shard out of range");
  require(parse_shard(shard_name(shard)) == shard, "a shard is not its own name");
}

// Lines: options of a request, in this order.
void check_request(const std::string& text) {
  RequestOptions options;
  std::string* const values[] = {&options.layers,
                                 &options.heads,
                                 &options.protocol.mode,
                                 &options.allocate,
                                 &options.protocol.reference,
                                 &options.shard,
                                 &options.protocol.eviction_interval};
  std::size_t begin = 0;
  for (std::string* const value : values) {
    const std::size_t end = text.find('\n', begin);
    *value = text.substr(begin, end - begin);
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  static_cast<void>(request_of(options));
  static_cast<void>(allocation_of(options));
}

void check_config(const std::string& text) {
  namespace po = boost::program_options;
  static const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("kvsim-config-" + std::to_string(getpid()));
  std::ofstream(file, std::ios::binary) << text;
  po::options_description options;
  options.add_options()("budgets", po::value<std::string>())("threads", po::value<int>())(
      "policies", po::value<std::vector<std::string>>())("quiet", "")("layers",
                                                                      po::value<std::string>());
  po::variables_map values;
  try {
    cli::store_config(file, options, {"TRACE"}, values);
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
  std::filesystem::remove(file);
}

void check_recipe(const std::string& text) {
  static const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("kvsim-recipe-" + std::to_string(getpid()));
  std::ofstream(file, std::ios::binary) << text;
  try {
    check_spec("recipe:file=" + file.string());
  } catch (const DataError&) {  // the text is no recipe
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
  std::filesystem::remove(file);
}

}  // namespace

void check_text(std::string_view input) {
  constexpr void (*kParsers[])(const std::string&) = {check_spec,    check_specs,  check_budgets,
                                                      check_indices, check_list,   check_shard,
                                                      check_request, check_config, check_recipe};
  constexpr std::string_view kNames = "SLBIPHRCY";
  if (input.empty()) return;
  const std::size_t parser = kNames.find(input.front());
  if (parser == std::string_view::npos) return;
  try {
    kParsers[parser](std::string(input.substr(1)));
  } catch (const UsageError&) {
  } catch (const boost::program_options::error&) {
  }
}

}  // namespace kvsim::faults
