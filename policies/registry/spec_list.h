#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "policies/registry/spec.h"

namespace kvsim {

/// What "all" and "oracles" stand for in a list of specs.
struct NamedSpecs {
  std::function<std::vector<Spec>()> all;
  std::function<std::vector<Spec>()> oracles;
};

/// "all": every policy that is not an oracle, needs no file and is not of Python; "oracles": every
/// oracle; each at its defaults.
NamedSpecs every_spec();

/// As parse_specs(list) for several lists, with other meanings of "all" and "oracles"; where they
/// stand for nothing, the result may be empty.
std::vector<Spec> parse_specs(std::span<const std::string> lists, const NamedSpecs& named);

}  // namespace kvsim
