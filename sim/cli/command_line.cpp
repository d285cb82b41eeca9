#include "sim/cli/command_line.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

namespace kvsim::cli {
namespace {

namespace po = boost::program_options;

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=%+@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + '\'';
}

/// The words of an option's value; none for an option that takes no value.
std::vector<std::string> words_of(const std::string& name, const boost::any& value) {
  if (const auto* texts = boost::any_cast<std::vector<std::string>>(&value)) return *texts;
  if (const auto* text = boost::any_cast<std::string>(&value)) {
    return text->empty() ? std::vector<std::string>() : std::vector<std::string>{*text};
  }
  if (const auto* number = boost::any_cast<int>(&value)) return {std::to_string(*number)};
  if (const auto* number = boost::any_cast<std::int64_t>(&value)) return {std::to_string(*number)};
  throw std::logic_error(fmt::format("--{}: expected a text or an integer", name));
}

/// Arguments first, then options, which start with a lower case letter.
std::vector<std::string> resolved(const po::variables_map& values) {
  std::vector<std::string> arguments;
  std::vector<std::string> options;
  for (const auto& [name, value] : values) {
    if (value.defaulted() || name == "config") continue;
    const std::vector<std::string> words = words_of(name, value.value());
    if (name.front() >= 'A' && name.front() <= 'Z') {
      arguments.insert(arguments.end(), words.begin(), words.end());
      continue;
    }
    if (words.empty()) options.push_back("--" + name);
    for (const std::string& word : words) {
      options.push_back("--" + name);
      options.push_back(word);
    }
  }
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

}  // namespace

std::string command_line(const Verb& verb, const std::vector<std::string>& arguments,
                         const po::variables_map& values) {
  std::string line = fmt::format("kvsim {}", verb.name);
  for (const std::string& word : values.count("config") > 0 ? resolved(values) : arguments) {
    line += ' ' + quoted(word);
  }
  return line;
}

}  // namespace kvsim::cli
