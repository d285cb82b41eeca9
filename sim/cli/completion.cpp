#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "policies/registry/registry.h"
#include "sim/cli/options.h"

namespace kvsim::cli {
namespace {

/// An option that names policies; every other one is completed with file names.
bool takes_policies(const std::string& option) {
  return option == "policies" || option == "policy";
}

std::string policy_names() {
  std::string names = "all oracles";
  for (const PolicyInfo& policy : policies()) names += ' ' + policy.name;
  return names;
}

/// The first clause of a help text, in single quotes for a shell.
std::string shell_text(std::string_view text) {
  const std::size_t end = std::min({text.find("; "), text.find(": "), text.size()});
  std::string clause;
  for (const char c : text.substr(0, end)) {
    if (c == '\'') clause += "'\\'";
    clause += c;
  }
  return '\'' + clause + '\'';
}

std::vector<std::string> long_options(const Verb& verb) {
  std::vector<std::string> names;
  const po::options_description options = options_of(verb);
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  return names;
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  return names;
}

/// What follows the verb is one of these; empty: a file.
std::string words_after(const Verb& verb) {
  if (verb.name == std::string_view("policies")) return policy_names();
  return verb.name == std::string_view("completion") ? "bash zsh fish" : "";
}

void print_bash(std::ostream& out) {
  out << "# Completion of kvsim in bash: eval \"$(kvsim completion bash)\"\n"
         "_kvsim() {\n"
         "  local word=$2 previous=$3 options= words=\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
      << fmt::format("    words='{} --help --version'\n", fmt::join(verb_names(), " "))
      << "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  if [[ $previous == --policies || $previous == --policy ]]; then\n"
         "    # The last spec of a list in quotes.\n"
         "    local before=${word%\"${word##*;}\"}\n"
      << fmt::format("    words='{}'\n", policy_names())
      << "    COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"${word##*;}\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n";
  for (const Verb& verb : verbs()) {
    out << fmt::format("    {}) options='{}' words='{}' ;;\n", verb.name,
                       fmt::join(long_options(verb), " "), words_after(verb));
  }
  out << "  esac\n"
         "  if [[ $word == -* ]]; then words=$options; fi\n"
         "  # No words: complete -o default takes file names.\n"
         "  if [[ -n $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); fi\n"
         "}\n"
         "complete -o default -F _kvsim kvsim\n";
}

void print_zsh(std::ostream& out) {
  out << "#compdef kvsim\n"
         "# Completion of kvsim in zsh: a file _kvsim in a folder of fpath\n"
         "_kvsim() {\n"
         "  local -a words_of_verb options verbs policies\n"
         "  verbs=(\n";
  for (const Verb& verb : verbs()) {
    out << fmt::format("    '{}:'{}\n", verb.name, shell_text(verb.summary));
  }
  out << fmt::format("  )\n  policies=({})\n", policy_names())
      << "  if ((CURRENT == 2)); then _describe verb verbs; return; fi\n"
         "  case ${words[CURRENT-1]} in\n"
         "    --policies|--policy) compset -P '*;'; compadd -a policies; return ;;\n"
         "  esac\n"
         "  case ${words[2]} in\n";
  for (const Verb& verb : verbs()) {
    out << fmt::format("    {})\n      words_of_verb=({})\n      options=(\n", verb.name,
                       words_after(verb));
    const po::options_description options = options_of(verb);
    for (const auto& option : options.options()) {
      out << fmt::format("        '--{}:'{}\n", option->long_name(),
                         shell_text(option->description()));
    }
    out << "      ) ;;\n";
  }
  out << "  esac\n"
         "  if [[ ${words[CURRENT]} == -* ]]; then _describe option options\n"
         "  elif ((${#words_of_verb})); then compadd -a words_of_verb\n"
         "  else _files; fi\n"
         "}\n"
         "if [[ $funcstack[1] == _kvsim ]]; then _kvsim \"$@\"; else compdef _kvsim kvsim; fi\n";
}

void print_fish(std::ostream& out) {
  out << "# Completion of kvsim in fish: kvsim completion fish | source\n";
  for (const Verb& verb : verbs()) {
    out << fmt::format("complete -c kvsim -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                       shell_text(verb.summary));
  }
  for (const Verb& verb : verbs()) {
    const std::string start =
        fmt::format("complete -c kvsim -n '__fish_seen_subcommand_from {}'", verb.name);
    if (!words_after(verb).empty()) {
      out << fmt::format("{} -f -a '{}'\n", start, words_after(verb));
    }
    const po::options_description options = options_of(verb);
    for (const auto& option : options.options()) {
      const std::string& name = option->long_name();
      const bool takes_value = option->semantic()->max_tokens() > 0;
      const std::string value =
          takes_policies(name) ? fmt::format(" -x -a '{}'", policy_names()) : " -r";
      out << fmt::format("{} -l {}{} -d {}\n", start, name, takes_value ? value : "",
                         shell_text(option->description()));
    }
  }
}

}  // namespace

int run_completion(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, po::options_description("Options"), {"SHELL"});
  if (!values) return 0;
  const std::string shell = positional_from(verb, *values, "SHELL");
  check_choice("SHELL", shell, {"bash", "zsh", "fish"});
  if (shell == "bash") print_bash(std::cout);
  if (shell == "zsh") print_zsh(std::cout);
  if (shell == "fish") print_fish(std::cout);
  return 0;
}

}  // namespace kvsim::cli
