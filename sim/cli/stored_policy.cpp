#include "sim/cli/stored_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "policies/registry/spec.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim::cli {
namespace {

std::string name_of_policy(const std::string& spec) {
  return spec.substr(0, spec.find_first_of(":+@"));
}

/// The label with the name nearest to that of `text`, or of the specs with that name the nearest.
std::string nearest_policy(const std::string& text, const std::vector<std::string>& specs,
                           const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const std::string& spec : specs) names.push_back(name_of_policy(spec));
  names.insert(names.end(), labels.begin(), labels.end());
  std::string name = nearest(name_of_policy(text), names);
  if (std::find(labels.begin(), labels.end(), name) != labels.end()) return name;
  std::vector<std::string> of_name;
  for (const std::string& spec : specs) {
    if (name_of_policy(spec) == name) of_name.push_back(spec);
  }
  return nearest(text, of_name);
}

/// `text` in its canonical form; none if it is no spec: a file may have policies that the program
/// does not know, of plug-ins and of Python.
std::optional<std::string> known_spec(const std::string& text) {
  try {
    return Spec::stored(text).text();
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

std::string canonical_spec(const std::string& text) { return known_spec(text).value_or(text); }

/// Where the label of "LABEL=SPEC" ends; npos: there is none.
std::size_t end_of_label(const std::string& text) {
  const std::size_t end = text.find_first_of("=:+@");
  return end != std::string::npos && text[end] == '=' ? end : std::string::npos;
}

}  // namespace

std::string stored_policy(const std::string& text, const std::vector<std::string>& policies,
                          const ResultStore& store, const std::string& file) {
  const auto has = [&](const std::string& spec) {
    return std::find(policies.begin(), policies.end(), spec) != policies.end();
  };
  if (has(text)) return text;
  if (const std::size_t end = end_of_label(text); end != std::string::npos) {
    std::string spec = canonical_spec(text.substr(end + 1));
    const std::vector<std::string> of_label = store.policies_labelled(text.substr(0, end));
    if (std::find(of_label.begin(), of_label.end(), spec) != of_label.end()) return spec;
    throw UsageError(fmt::format("{} has no rows of {} labelled '{}'; give the label or the spec",
                                 file, spec, text.substr(0, end)));
  }
  std::string canonical = canonical_spec(text);
  if (has(canonical)) return canonical;
  const std::vector<std::string> labelled = store.policies_labelled(text);
  if (labelled.size() == 1) return labelled.front();
  if (labelled.size() > 1) {
    throw UsageError(fmt::format("{} has rows of {} labelled '{}'; name one of them", file,
                                 fmt::join(labelled, " and of "), text));
  }
  if (!known_spec(text)) {
    std::vector<std::string> of_name;
    std::copy_if(policies.begin(), policies.end(), std::back_inserter(of_name),
                 [&](const std::string& spec) { return name_of_policy(spec) == text; });
    if (of_name.size() == 1) return of_name.front();
    if (of_name.size() > 1) {
      throw UsageError(
          fmt::format("{} has rows of {}; name one of them", file, fmt::join(of_name, " and of ")));
    }
  }
  throw UsageError(fmt::format("{} has no rows of '{}'; did you mean '{}'?", file, text,
                               nearest_policy(canonical, policies, store.labels())));
}

}  // namespace kvsim::cli
