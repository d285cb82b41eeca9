#include "sim/cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "policies/registry/yaml_file.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/cli/option_message.h"

namespace kvsim::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kConfig = "config";
constexpr const char* kHelp = "help";

/// Options whose value is one text that lists several things, separated by commas.
const std::set<std::string> kListed = {"sequences", "layers", "heads", "what"};

/// The key of a positional argument: "trace" for TRACE, "results" for RESULTS.sqlite.
std::string key_of(const std::string& argument) {
  std::string key;
  for (const char c : argument.substr(0, argument.find('.'))) {
    key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return key;
}

class Config {
 public:
  Config(std::string file, const po::options_description& options,
         const std::vector<std::string>& positional)
      : file_(std::move(file)), options_(options) {
    // An option comes before an argument of the same key.
    for (const std::string& argument : positional) names_[key_of(argument)] = argument;
    for (const auto& option : options.options()) {
      const std::string& name = option->long_name();
      if (name == kConfig || name == kHelp || is_argument(name, positional)) continue;
      names_[name] = name;
    }
  }

  po::parsed_options parsed() const {
    const YAML::Node root = read_yaml(file_, [&](const std::string& what) { fail(what); });
    if (!root.IsMap()) fail("expected long option names as keys, as in 'policies: h2o'");
    po::parsed_options parsed(&options_);
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto name = names_.find(key);
      if (name == names_.end()) fail_unknown(key);
      if (!seen.insert(key).second) fail(fmt::format("the key '{}' is given twice", key));
      add(parsed, key, name->second, entry.second);
    }
    return parsed;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(fmt::format("--config {}: {}", file_, what));
  }

 private:
  static bool is_argument(const std::string& name, const std::vector<std::string>& positional) {
    return std::find(positional.begin(), positional.end(), name) != positional.end();
  }

  [[noreturn]] void fail_unknown(const std::string& key) const {
    if (key == kConfig) fail("key 'config': a config names no other config");
    if (key == kHelp) fail("key 'help': expected --help on the command line");
    std::vector<std::string> keys;
    for (const auto& [known, name] : names_) keys.push_back(known);
    fail(fmt::format("unknown key '{}'; did you mean '{}'?", key, nearest(key, keys)));
  }

  void add(po::parsed_options& parsed, const std::string& key, const std::string& name,
           const YAML::Node& value) const {
    const po::option_description& option = options_.find(name, false);
    if (option.semantic()->max_tokens() == 0) {
      bool is_set = false;
      if (!value.IsScalar() || !YAML::convert<bool>::decode(value, is_set)) {
        fail(fmt::format("key '{}': expected true or false", key));
      }
      if (is_set) parsed.options.emplace_back(name, std::vector<std::string>());
      return;
    }
    std::vector<std::string> words = words_of(key, value);
    const bool takes_several =
        dynamic_cast<const po::typed_value<std::vector<std::string>>*>(option.semantic().get());
    if (words.size() > 1 && !takes_several) {
      if (!kListed.contains(name)) {
        fail(fmt::format("key '{}': expected one value, found a list", key));
      }
      words = {fmt::format("{}", fmt::join(words, ","))};
    }
    parsed.options.emplace_back(name, words);
  }

  std::vector<std::string> words_of(const std::string& key, const YAML::Node& value) const {
    if (value.IsScalar()) return {value.Scalar()};
    std::vector<std::string> words;
    if (value.IsSequence()) {
      for (const YAML::Node& entry : value) {
        if (!entry.IsScalar()) fail(fmt::format("key '{}': expected a list of texts", key));
        words.push_back(entry.Scalar());
      }
    }
    if (words.empty()) {
      fail(
          fmt::format("key '{}': expected a value or a list of values, found nothing usable", key));
    }
    return words;
  }

  std::string file_;
  const po::options_description& options_;
  std::map<std::string, std::string> names_;  // of options, by key
};

}  // namespace

void store_config(const std::string& file, const po::options_description& options,
                  const std::vector<std::string>& positional, po::variables_map& values) {
  const Config config(file, options, positional);
  try {
    po::store(config.parsed(), values);
  } catch (po::error& error) {
    config.fail(option_message(error));
  }
}

}  // namespace kvsim::cli
