#include "sim/cli/option_message.h"

#include <algorithm>

namespace kvsim::cli {
namespace {

using NamedError = boost::program_options::error_with_option_name;

struct Substitutions : NamedError {
  static auto& of(NamedError& error) { return error.*(&Substitutions::m_substitutions); }
};

constexpr char kPercent = '\1';  // stands for a % of the user's while Boost looks for its own

}  // namespace

std::string option_message(boost::program_options::error& error) {
  auto* const named = dynamic_cast<NamedError*>(&error);
  if (named == nullptr) return error.what();
  for (auto& [name, text] : Substitutions::of(*named)) {
    std::replace(text.begin(), text.end(), '%', kPercent);
  }
  std::string message = named->what();
  std::replace(message.begin(), message.end(), kPercent, '%');
  return message;
}

}  // namespace kvsim::cli
