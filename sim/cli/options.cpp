#include "sim/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "gpu/cuda/choose_backend.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/cli/config.h"
#include "sim/plugin/load_plugin.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/request/lists.h"

namespace kvsim::cli {
namespace {

/// In place of arguments, asks parse() for the options. No shell can pass this word.
const std::string kDescribe("\0options", 8);

struct Described {
  po::options_description options;
};

std::vector<std::string> option_names(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  return names;
}

void load_plugins(const po::variables_map& values) {
  if (values.count("plugin") == 0) return;
  for (const std::string& file : values["plugin"].as<std::vector<std::string>>()) load_plugin(file);
}

}  // namespace

std::optional<po::variables_map> parse(const Verb& verb, const std::vector<std::string>& arguments,
                                       po::options_description options,
                                       const std::vector<std::string>& positional) {
  options.add_options()("config", po::value<std::string>(),
                        "a YAML or JSON file of long options, as in 'budgets: [5%, 10%]'; those "
                        "given here come first")("help,h", "print this help");
  if (arguments == std::vector<std::string>{kDescribe}) throw Described{options};
  if (std::any_of(arguments.begin(), arguments.end(),
                  [](const std::string& word) { return word == "--help" || word == "-h"; })) {
    std::cout << fmt::format("kvsim {}: {}\n\nusage: kvsim {} {} [OPTIONS]\n", verb.name,
                             verb.summary, verb.name, verb.arguments)
              << options;
    return std::nullopt;
  }
  po::options_description all;
  all.add(options);
  po::positional_options_description places;
  for (std::size_t i = 0; i < positional.size(); ++i) {
    all.add_options()(positional[i].c_str(), po::value<std::vector<std::string>>());
    places.add(positional[i].c_str(), i + 1 == positional.size() ? -1 : 1);
  }
  po::variables_map values;
  try {
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments).options(all).positional(places).style(style).run(),
              values);
    if (values.count("config") > 0) {
      store_config(values["config"].as<std::string>(), all, positional, values);
    }
    po::notify(values);
    load_plugins(values);
  } catch (const po::unknown_option& error) {
    throw UsageError(fmt::format(
        "unknown option '{}'; did you mean '{}'? (kvsim {} --help)", error.get_option_name(),
        nearest(error.get_option_name(), option_names(options)), verb.name));
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError(
        fmt::format("too many arguments; usage: kvsim {} {}", verb.name, verb.arguments));
  }
  return values;
}

po::options_description options_of(const Verb& verb) {
  try {
    verb.run(verb, {kDescribe});
  } catch (const Described& described) {
    return described.options;
  }
  throw std::logic_error(fmt::format("verb {}: expected it to begin with parse()", verb.name));
}

po::options_description selection_options() {
  po::options_description options("What to replay");
  options.add_options()("sequences", po::value<std::string>(), "names, separated by commas")(
      "layers", po::value<std::string>(), "layers, as in 0-3,7")(
      "heads", po::value<std::string>(), "KV heads, as in 0,2; each with its query heads");
  return options;
}

po::options_description run_options() {
  po::options_description options("How to run");
  options.add_options()("device", po::value<std::string>()->default_value("cpu"),
                        "cpu, cuda or auto")(
      "threads", po::value<int>()->default_value(default_threads()),
      "units worked on at once; results do not depend on it. Without it OMP_NUM_THREADS, else the "
      "cores that affinity and the quota of a container or job allow");
  return options;
}

po::options_description replay_options() {
  po::options_description options("How to replay");
  options.add_options()(
      "mode", po::value<std::string>()->default_value("stream"),
      "stream: evict from the first token on; prefill: the prompt attends in full "
      "and is cut to the budget; then every later token evicts one, unless --eviction-interval "
      "says "
      "otherwise; only later steps are measured")(
      "eviction-interval", po::value<std::string>()->default_value("1"),
      "K: the cache may grow by K - 1 tokens beyond its budget before a step evicts again; never: "
      "with --mode prefill, the prompt is cut once and every later token stays, as in SnapKV and "
      "kvpress (sweep and replay only)")("seed", po::value<std::int64_t>()->default_value(0),
                                         "for policies that draw")(
      "allocate", po::value<std::string>()->default_value("uniform"),
      "how the budget, then the mean of all heads, is split over layers and heads: uniform, "
      "pyramid, "
      "persistence or adaptive");
  return options;
}

po::options_description shard_options() {
  po::options_description options("One machine of several");
  options.add_options()("shard", po::value<std::string>()->default_value("1/1"),
                        "I/N: the I-th of N shares of the work, of equal estimated cost; kvsim "
                        "merge joins their files");
  return options;
}

po::options_description scratch_options() {
  po::options_description options("Where to write");
  options.add_options()("scratch", po::value<std::string>(),
                        "a folder on a local disk: the result file is written there and brought to "
                        "its place whole, every minute and at the end. Without it only a file on "
                        "NFS, Lustre or another shared file system is, in TMPDIR");
  return options;
}

po::options_description measuring_options() {
  po::options_description options("What to measure");
  options.add_options()("reference", po::value<std::string>()->default_value("full"),
                        "full: what is lost against the full attention; sample:N: the same at N "
                        "steps, evenly spaced, the last included, with 95% intervals, for long "
                        "texts; none: only what leaves and when, for texts of millions of "
                        "tokens")(
      "every", po::value<int>()->default_value(1),
      "output errors at the last step and at every so many steps before it");
  return options;
}

po::options_description plugin_options() {
  po::options_description options;
  options.add_options()("plugin", po::value<std::vector<std::string>>()->composing(),
                        "a shared library of policies and analyses (kvsim/plugin.h); or the option "
                        "again, or before the verb");
  return options;
}

RequestOptions options_from(const po::variables_map& values) {
  RequestOptions options;
  const auto take = [&]<class T>(const std::string& name, T& field) {
    if (values.count(name) > 0) field = values[name].as<T>();
  };
  if (values.count("sequences") > 0) {
    options.sequences = parse_list(values["sequences"].as<std::string>(), "--sequences");
  }
  take("layers", options.layers);
  take("heads", options.heads);
  options.protocol.each([&](std::string name, auto& field) {
    std::replace(name.begin(), name.end(), '_', '-');
    take(name, field);
  });
  take("seed", options.seed);
  take("allocate", options.allocate);
  take("threads", options.threads);
  take("shard", options.shard);
  return options;
}

Scratch scratch_from(const po::variables_map& values) {
  Scratch scratch;
  if (values.count("scratch") > 0) scratch.folder = values["scratch"].as<std::string>();
  scratch.tell = [](const std::string& line) { std::cerr << fmt::format("kvsim: {}\n", line); };
  return scratch;
}

std::unique_ptr<Backend> backend_from(const po::variables_map& values) {
  return choose_backend(values["device"].as<std::string>());
}

std::string choice_from(const po::variables_map& values, const std::string& option,
                        const std::vector<std::string>& choices) {
  auto value = values[option].as<std::string>();
  check_choice("--" + option, value, choices);
  return value;
}

std::vector<std::string> positionals_from(const Verb& verb, const po::variables_map& values,
                                          const std::string& name) {
  if (values.count(name) == 0) {
    throw UsageError(
        fmt::format("expected a {}; usage: kvsim {} {}", name, verb.name, verb.arguments));
  }
  return values[name].as<std::vector<std::string>>();
}

std::string positional_from(const Verb& verb, const po::variables_map& values,
                            const std::string& name) {
  const std::vector<std::string> words = positionals_from(verb, values, name);
  if (words.size() > 1) {
    throw UsageError(fmt::format("expected one {}, found also '{}'; usage: kvsim {} {}", name,
                                 words[1], verb.name, verb.arguments));
  }
  return words.front();
}

namespace {

const po::variable_value& required(const Verb& verb, const po::variables_map& values,
                                   const std::string& option) {
  if (values.count(option) > 0) return values[option];
  throw UsageError(
      fmt::format("expected --{}; usage: kvsim {} {}", option, verb.name, verb.arguments));
}

}  // namespace

std::string required_from(const Verb& verb, const po::variables_map& values,
                          const std::string& option) {
  return required(verb, values, option).as<std::string>();
}

std::vector<std::string> all_from(const Verb& verb, const po::variables_map& values,
                                  const std::string& option) {
  return required(verb, values, option).as<std::vector<std::string>>();
}

}  // namespace kvsim::cli
