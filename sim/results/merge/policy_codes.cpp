#include "sim/results/merge/policy_codes.h"

#include <fmt/format.h>

#include <sstream>

#include "sim/base/errors.h"

namespace kvsim {

void PolicyCodes::add(const std::string& policy, const std::string& code, const std::string& file) {
  const auto [place, is_first] = policies_.try_emplace(policy, Known{file, {code}});
  Known& known = place->second;
  if (is_first || (known.codes.size() == 1 && known.codes.contains(code))) return;
  if (known.file == file) {
    known.codes.insert(code);
    return;
  }
  const auto shown = [](const std::string& each) { return each.empty() ? "none" : each; };
  std::string other = *known.codes.begin();
  for (const std::string& each : known.codes) {
    if (each != code) other = each;
  }
  throw DataError(fmt::format(
      "{} has rows of {} with policy_code {}, {} with {}: they come from different code; make the "
      "older file again with the current version (the same command does that), then merge",
      known.file, policy, shown(other), file, shown(code)));
}

void PolicyCodes::add(const std::vector<std::string>& policies, const std::string& code,
                      const std::string& file) {
  std::vector<std::string> codes;
  std::istringstream joined(code);
  for (std::string each; std::getline(joined, each, '+');) codes.push_back(each);
  if (codes.size() != policies.size()) codes.assign(policies.size(), code);
  for (std::size_t i = 0; i < policies.size(); ++i) add(policies[i], codes[i], file);
}

}  // namespace kvsim
