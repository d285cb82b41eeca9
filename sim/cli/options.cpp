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

/// The name on the command line of an option that has this one in Python.
std::string flag_of(const char* name) {
  std::string flag(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

/// Adds an option with its default; one whose default is empty has none.
struct OptionAdder {
  po::options_description& options;

  template <class T>
  void operator()(const char* name, const T& initial, const char* help) const {
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      options.add_options()(flag_of(name).c_str(), po::value<std::string>(), help);
    } else {
      auto* value = po::value<T>();
      if (std::is_arithmetic_v<T> || initial != T()) value->default_value(initial);
      options.add_options()(flag_of(name).c_str(), value, help);
    }
  }
};

void add_options(OptionGroup group, po::options_description& options) {
  RequestOptions().each(
      [&](OptionGroup own, const char* name, const auto& initial, const char* help) {
        if (own == group) OptionAdder{options}(name, initial, help);
      });
}

po::options_description options_in(OptionGroup group, const char* caption) {
  po::options_description options(caption);
  add_options(group, options);
  return options;
}

const po::variable_value& required(const Verb& verb, const po::variables_map& values,
                                   const std::string& option) {
  if (values.count(option) > 0) return values[option];
  throw UsageError(
      fmt::format("expected --{0}; usage: kvsim {1} {2} (kvsim {1} --help explains it)", option,
                  verb.name, verb.arguments));
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
  return options_in(OptionGroup::selection, "What to replay");
}

po::options_description run_options() {
  po::options_description options = options_in(OptionGroup::run, "How to run");
  options.add_options()("device", po::value<std::string>()->default_value("cpu"),
                        "cpu, cuda or auto");
  return options;
}

po::options_description replay_options() {
  po::options_description options("How to replay");
  ProtocolOptions().each_of_evictions(OptionAdder{options});
  add_options(OptionGroup::replay, options);
  return options;
}

po::options_description shard_options() {
  return options_in(OptionGroup::shard, "One machine of several");
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
  ProtocolOptions().each_of_measuring(OptionAdder{options});
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
  const auto take = [&]<class T>(const char* name, T& member, const char*) {
    const std::string flag = flag_of(name);
    if (values.count(flag) == 0) return;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      member = parse_list(values[flag].as<std::string>(), "--" + flag);
    } else {
      member = values[flag].as<T>();
    }
  };
  options.protocol.each(take);
  options.each([&](OptionGroup, const char* name, auto& member, const char* help) {
    take(name, member, help);
  });
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

std::string required_from(const Verb& verb, const po::variables_map& values,
                          const std::string& option) {
  return required(verb, values, option).as<std::string>();
}

std::vector<std::string> all_from(const Verb& verb, const po::variables_map& values,
                                  const std::string& option) {
  return required(verb, values, option).as<std::vector<std::string>>();
}

}  // namespace kvsim::cli
