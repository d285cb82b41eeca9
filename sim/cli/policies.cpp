#include <fmt/format.h>

#include <iostream>

#include "policies/spec.h"
#include "sim/cli/options.h"

namespace kvsim::cli {
namespace {

void print_policy(const PolicyInfo& policy) {
  const auto line = [](const std::string& name, const std::string& text) {
    if (!text.empty()) std::cout << fmt::format("    {:<14}{}\n", name, text);
  };
  std::cout << fmt::format("{}\n", Spec(policy).text());
  line("keeps", policy.keeps);
  line("source", policy.source);
  line("sees", policy.sees);
  line("differences", policy.differences);
  for (const Param& param : policy.params) {
    line(fmt::format("{}={}", param.name, param.initial),
         fmt::format("{} ({})", param.help, param.allowed()));
  }
}

void print_markdown() {
  std::cout << "| spec | keeps | source |\n| --- | --- | --- |\n";
  for (const PolicyInfo& policy : policies()) {
    std::cout << fmt::format("| `{}` | {} | {} |\n", Spec(policy).text(), policy.keeps,
                             policy.source);
  }
}

}  // namespace

int run_policies(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("format", po::value<std::string>()->default_value("text"),
                        "text, or markdown for the table of a README");
  const auto values = parse(verb, arguments, options, {"NAME"});
  if (!values) return 0;
  const std::string format = choice_from(*values, "format", {"text", "markdown"});
  if (values->count("NAME") > 0) {
    print_policy(find_policy(word_from(verb, *values, "NAME")));
  } else if (format == "markdown") {
    print_markdown();
  } else {
    for (const PolicyInfo& policy : policies()) print_policy(policy);
  }
  return 0;
}

}  // namespace kvsim::cli
