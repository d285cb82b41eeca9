#pragma once

#include <string_view>

namespace kvsim {

/// Whether a spec can have this label: a letter or '_', then letters, digits, '_', '-' and '.'.
bool is_label(std::string_view text);

/// Whether this stands for policies in a list of specs: a policy, an alias, `all`, `recipe`.
bool names_a_policy(std::string_view name);

}  // namespace kvsim
