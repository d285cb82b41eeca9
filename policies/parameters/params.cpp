#include "policies/parameters/params.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

std::string to_text(int value) { return fmt::format("{}", value); }
std::string to_text(double value) { return fmt::format("{}", value); }
std::string to_text(const Amount& value) { return value.text(); }
std::string to_text(const std::string& value) { return value; }

template <class Number>
bool parse_in_range(std::string_view text, const Param& param, Number& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && value >= param.least &&
         value <= param.most;
}

}  // namespace

Param Param::integer(std::string name, int initial, int least, int most, std::string help) {
  return {std::move(name),
          Type::integer,
          to_text(initial),
          static_cast<double>(least),
          static_cast<double>(most),
          {},
          std::move(help)};
}

Param Param::real(std::string name, double initial, double least, double most, std::string help) {
  return {std::move(name), Type::real, to_text(initial), least, most, {}, std::move(help)};
}

Param Param::amount(std::string name, std::string initial, std::string help) {
  return {std::move(name), Type::amount, std::move(initial), 0, 0, {}, std::move(help)};
}

Param Param::choice(std::string name, std::vector<std::string> choices, std::string help) {
  std::string first = choices.front();
  return {std::move(name),    Type::choice,   std::move(first), 0, 0,
          std::move(choices), std::move(help)};
}

Param Param::text(std::string name, std::string help, std::string initial) {
  return {std::move(name), Type::text, std::move(initial), 0, 0, {}, std::move(help)};
}

std::string Param::allowed() const {
  switch (type) {
    case Type::integer:
    case Type::real:
      return fmt::format("{}..{}", least, most);
    case Type::amount:
      return "tokens or a share of the budget";
    case Type::choice:
      return fmt::format("{}", fmt::join(choices, "|"));
    case Type::text:
      return "text without ',', ';', '+' and '@'";
  }
  return {};
}

Params::Params(const std::vector<Param>& declared) {
  for (const Param& param : declared) {
    values_.emplace_back(param, parse(param, param.initial, "default"));
  }
}

Params::Value Params::parse(const Param& param, std::string_view text, std::string_view owner) {
  switch (param.type) {
    case Param::Type::integer:
      if (int value = 0; parse_in_range(text, param, value)) return value;
      break;
    case Param::Type::real:
      if (double value = 0; parse_in_range(text, param, value)) return value;
      break;
    case Param::Type::amount:
      return Amount::parse(text, fmt::format("{}: {}", owner, param.name));
    case Param::Type::choice:
      for (const std::string& choice : param.choices) {
        if (choice == text) return choice;
      }
      break;
    case Param::Type::text:
      return std::string(text);
  }
  const std::string hint = param.type == Param::Type::choice
                               ? fmt::format("; did you mean '{}'?", nearest(text, param.choices))
                               : std::string();
  throw UsageError(fmt::format("{}: {}='{}' is not allowed, expected {}{}", owner, param.name, text,
                               param.allowed(), hint));
}

void Params::set(std::string_view name, std::string_view value, std::string_view owner) {
  std::vector<std::string> names;
  for (auto& [param, current] : values_) {
    if (param.name == name) {
      current = parse(param, value, owner);
      return;
    }
    names.push_back(param.name);
  }
  if (names.empty()) {
    throw UsageError(fmt::format("{} has no parameters, found '{}'", owner, name));
  }
  throw UsageError(fmt::format("{} has no parameter '{}'; did you mean '{}'? It has: {}", owner,
                               name, nearest(name, names), fmt::join(names, ", ")));
}

template <class T>
const T& Params::get(std::string_view name) const {
  for (const auto& [param, value] : values_) {
    if (param.name != name) continue;
    if (const T* held = std::get_if<T>(&value)) return *held;
  }
  throw std::logic_error(fmt::format("parameter '{}' is not declared with this type", name));
}

int Params::integer(std::string_view name) const { return get<int>(name); }

double Params::real(std::string_view name) const { return get<double>(name); }

int Params::amount(std::string_view name, int budget) const { return get<Amount>(name).of(budget); }

bool Params::is_share(std::string_view name) const { return get<Amount>(name).is_share(); }

const std::string& Params::choice(std::string_view name) const { return get<std::string>(name); }

const std::string& Params::text(std::string_view name) const { return get<std::string>(name); }

std::string Params::text() const {
  std::vector<std::string> parts;
  for (const auto& [param, value] : values_) {
    const std::string text = std::visit([](const auto& held) { return to_text(held); }, value);
    parts.push_back(param.name + '=' + text);
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace kvsim
