#include "sim/cli/python_policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "policies/registry/finder.h"
#include "sim/base/errors.h"
#include "sim/cli/python_package.h"
#include "sim/plugin/load_plugin.h"
#include "sim/tiers/selector_finder.h"

namespace kvsim::cli {
namespace {

constexpr std::array<std::string_view, 5> kReplaying = {"replay", "sweep", "curve", "fetch",
                                                        "analyze"};

bool is_switched_off() {
  const char* const set = std::getenv("KVSIM_NO_PLUGINS");
  return set != nullptr && *set != '\0' && std::string_view(set) != "0";
}

std::string answer_to(const std::vector<std::string>& words) {
  if (is_switched_off()) return "";
  // The folder in which the program was started is none of Python's.
  return output_of_python(
      "import sys\nsys.path.pop(0)\nfrom kvsim.policy.listing import main\nmain(sys.argv[1:])",
      words);
}

/// Whether a package has what is called so, now registered. Throws as look_in_packages() says.
bool find(const std::string& verb, const std::string& kind, const std::string& name) {
  const std::string answer = answer_to({"find", kind, name});
  const std::size_t end = answer.find('\n');
  if (end == std::string::npos) return false;
  const std::string what = answer.substr(0, end);
  const std::string value = answer.substr(end + 1, answer.find('\n', end + 1) - end - 1);
  if (what == "error") throw UsageError(value);
  if (what == "package") {
    throw UsageError(fmt::format(
        "{} '{}' is Python code of the package {}, which this program does not run; call "
        "kvsim.{}() in Python, where it goes by the same name",
        kind, name, value, verb));
  }
  if (what != "file") return false;
  load_plugin(value);
  return true;
}

}  // namespace

std::string packaged_policies() { return answer_to({"list"}); }

std::string packaged_policy(const std::string& name) {
  std::string answer = answer_to({"explain", name});
  const std::string error = "error\n";
  if (answer.starts_with(error)) {
    throw UsageError(answer.substr(error.size(), answer.size() - error.size() - 1));
  }
  return answer;
}

void look_in_packages(const std::vector<std::string>& words) {
  if (std::find(kReplaying.begin(), kReplaying.end(), words.front()) == kReplaying.end()) return;
  const auto finder = [&](const std::string& kind) {
    return [words, kind](std::string_view name) {
      // Names out of result files are none of the user's; those of a configuration or recipe are.
      const bool is_written = std::any_of(words.begin(), words.end(), [&](const auto& word) {
        return word.find(name) != std::string::npos || word.starts_with("--config") ||
               word.find("recipe:") != std::string::npos;
      });
      return is_written && find(words.front(), kind, std::string(name));
    };
  };
  set_policy_finder(finder("policy"));
  set_selector_finder(finder("selector"));
}

}  // namespace kvsim::cli
