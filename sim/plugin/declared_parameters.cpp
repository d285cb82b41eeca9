#include "sim/plugin/declared_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

/// What separates parts of a spec, which no value can contain.
constexpr std::string_view kSeparators = ":,;=+@{} \t";

void check_range(const kvsim_parameter& parameter, const std::string& what) {
  const bool is_integer = parameter.type == KVSIM_INTEGER;
  const double least = is_integer ? std::numeric_limits<int>::min() : -HUGE_VAL;
  const double most = is_integer ? std::numeric_limits<int>::max() : HUGE_VAL;
  if (least <= parameter.lowest && parameter.lowest <= parameter.highest &&
      parameter.highest <= most) {
    return;
  }
  throw DataError(fmt::format("{}: expected lowest <= highest{}, found {} and {}", what,
                              is_integer ? ", both in 32 bits" : "", parameter.lowest,
                              parameter.highest));
}

std::vector<std::string> choices_of(const kvsim_parameter& parameter, const std::string& what) {
  std::vector<std::string> choices;
  for (const char* const* choice = parameter.choices; choice != nullptr && *choice != nullptr;
       ++choice) {
    const std::string name = *choice;
    const bool is_new = std::find(choices.begin(), choices.end(), name) == choices.end();
    if (name.empty() || name.find_first_of(kSeparators) != std::string::npos || !is_new) {
      throw DataError(fmt::format("{}: expected choices that differ, without '{}', found '{}'",
                                  what, kSeparators.substr(0, kSeparators.size() - 1), name));
    }
    choices.push_back(name);
  }
  if (choices.empty()) throw DataError(what + ": expected choices, found none");
  return choices;
}

Param parameter_of(const kvsim_parameter& parameter, const std::string& name,
                   const std::string& what) {
  Param declared{
      .name = name,
      .type = Param::Type::real,
      .initial = text_of(parameter.initial, parameter.type != KVSIM_CHOICE, what + ": initial"),
      .help = text_of(parameter.help, true, what + ": help")};
  switch (parameter.type) {
    case KVSIM_INTEGER:
    case KVSIM_NUMBER:
      check_range(parameter, what);
      if (parameter.type == KVSIM_INTEGER) declared.type = Param::Type::integer;
      declared.least = parameter.lowest;
      declared.most = parameter.highest;
      break;
    case KVSIM_AMOUNT:
      declared.type = Param::Type::amount;
      break;
    case KVSIM_CHOICE:
      declared.type = Param::Type::choice;
      declared.choices = choices_of(parameter, what);
      if (parameter.initial == nullptr) declared.initial = declared.choices.front();
      break;
    default:
      throw DataError(
          fmt::format("{}: expected a type of kvsim/plugin.h, found {}", what, parameter.type));
  }
  try {
    Params({declared});
  } catch (const UsageError& error) {
    throw DataError(fmt::format("{}: {}", what, error.what()));
  }
  return declared;
}

}  // namespace

std::vector<Param> parameters_of(const kvsim_parameter* parameters, std::int32_t count,
                                 const std::string& owner) {
  if (count < 0 || (count > 0 && parameters == nullptr)) {
    throw DataError(fmt::format("{}: expected parameters, found {} of them at NULL", owner, count));
  }
  std::vector<Param> declared;
  std::set<std::string> names;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::string what = fmt::format("{}: parameter {}", owner, i);
    const std::string name = text_of(parameters[i].name, true, what + ": name");
    check_name(name, true, what);
    if (name == "preset" || !names.insert(name).second) {
      throw DataError(fmt::format("{}: the name '{}' is taken; choose another", what, name));
    }
    declared.push_back(
        parameter_of(parameters[i], name, fmt::format("{}: parameter '{}'", owner, name)));
  }
  return declared;
}

std::vector<double> numbers_of(const std::vector<Param>& declared, const Params& params,
                               int budget) {
  std::vector<double> numbers;
  for (const Param& param : declared) {
    switch (param.type) {
      case Param::Type::integer:
        numbers.push_back(params.integer(param.name));
        break;
      case Param::Type::real:
        numbers.push_back(params.real(param.name));
        break;
      case Param::Type::amount:
        numbers.push_back(params.amount(param.name, budget));
        break;
      case Param::Type::choice: {
        const auto chosen =
            std::find(param.choices.begin(), param.choices.end(), params.choice(param.name));
        numbers.push_back(static_cast<double>(chosen - param.choices.begin()));
        break;
      }
      case Param::Type::text:
        throw std::logic_error("a plug-in has no parameter that is a text");
    }
  }
  return numbers;
}

std::string text_of(const char* text, bool is_required, const std::string& what) {
  std::string copy = text == nullptr ? "" : text;
  if (is_required && copy.empty()) throw DataError(what + ": expected a text, found none");
  if (copy.find_first_of("\r\n") != std::string::npos) {
    throw DataError(what + ": expected one line, found several");
  }
  return copy;
}

void check_name(const std::string& name, bool allows_hyphens, const std::string& what) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (!name.empty() && is_lower(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
        return is_lower(c) || (c >= '0' && c <= '9') || c == '_' || (allows_hyphens && c == '-');
      })) {
    return;
  }
  throw DataError(fmt::format(
      "{}: expected a name of lower-case letters, digits{} and '_' that begins with a letter, "
      "found '{}'",
      what, allows_hyphens ? ", '-'" : "", name));
}

void check_descriptor(std::int32_t version, std::int32_t size, std::size_t expected_size,
                      const std::string& what) {
  if (version != KVSIM_PLUGIN_VERSION) {
    throw DataError(
        fmt::format("{}: expected version {} of kvsim/plugin.h, found version {}; compile it "
                    "against the header of this kvsim",
                    what, KVSIM_PLUGIN_VERSION, version));
  }
  if (size < 0 || static_cast<std::size_t>(size) != expected_size) {
    throw DataError(fmt::format(
        "{}: expected a descriptor of {} bytes, found {}; set size to sizeof the descriptor, and "
        "compile it against the header of this kvsim",
        what, expected_size, size));
  }
}

}  // namespace kvsim
