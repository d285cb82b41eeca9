#include "policies/registry/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "policies/registry/labels.h"
#include "policies/registry/settings.h"
#include "policies/registry/yaml_file.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

constexpr std::string_view kVersion = "1";

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw DataError(fmt::format("recipe {}: {}", file, what));
}

void check_keys(const YAML::Node& root, const std::string& file) {
  std::vector<std::string> known;
  for (const RecipeKey& key : recipe_keys()) known.push_back(key.name);
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail(file, fmt::format("unknown key '{}'; did you mean '{}'?", key, nearest(key, known)));
    }
    if (!seen.insert(key).second)
      fail(file, fmt::format("the key '{}' is given twice; leave one out", key));
  }
}

/// The text of a key; empty if it is not there.
std::string text_of(const YAML::Node& root, const std::string& key, const std::string& file) {
  const YAML::Node value = root[key];
  if (!value) return "";
  if (!value.IsScalar())
    fail(file, fmt::format("key '{}': expected one text, found several; write one", key));
  return value.Scalar();
}

std::string file_in(std::string_view settings) {
  std::string file;
  const std::string owner(kRecipe);
  if (!settings.empty()) {
    for (const auto& [name, value] : parse_settings(settings, owner)) {
      if (name != "file") {
        throw UsageError(
            fmt::format("recipe has no parameter '{}'; it has file alone: recipe:file=PATH", name));
      }
      file = value;
    }
  }
  if (file.empty()) throw UsageError("recipe needs a file: recipe:file=PATH");
  return file;
}

}  // namespace

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys{
      {"kvsim_recipe", "the version of the format, 1"},
      {"policy", "a spec; paths of files in it are relative to the recipe's folder"},
      {"name", "a label for tables and figures"},
      {"budget", "the budget that it was found at"},
      {"mode", "the mode: stream or prefill"},
      {"eviction_interval", "the eviction interval"},
      {"page", "tokens of a page"},
      {"page_score", "the score of a page: mean, max or min"},
      {"model", "the model, or the traces"},
      {"model_id", "the digest of its weights"},
      {"objective", "what the search made small"},
      {"searched_on", "the texts that it was found on"},
      {"held_out", "policy, loss, low and high on the texts that the search did not see"},
      {"kvsim_version", "the version that wrote it"},
  };
  return keys;
}

bool is_recipe(std::string_view text) {
  return text.substr(0, text.find_first_of(":+@")) == kRecipe;
}

std::string Recipe::from_here(const std::string& path) const {
  return (std::filesystem::path(file).parent_path() / path).string();
}

Recipe read_recipe(std::string_view settings) { return read_recipe_file(file_in(settings)); }

Recipe read_recipe_file(const std::string& file) {
  Recipe recipe{.file = file};
  const YAML::Node root = read_yaml(file, [&](const std::string& what) { fail(file, what); });
  if (!root.IsMap()) fail(file, "expected keys and values, as in 'policy: h2o'");
  check_keys(root, file);
  const std::string version = text_of(root, "kvsim_recipe", file);
  if (version.empty()) fail(file, "it has no key 'kvsim_recipe'; expected kvsim_recipe: 1");
  if (version != kVersion) {
    fail(file, fmt::format("kvsim_recipe: expected version {}, found {}", kVersion, version));
  }
  recipe.policy = text_of(root, "policy", file);
  if (recipe.policy.empty()) fail(file, "it names no policy; expected policy: SPEC");
  if (recipe.policy.find_first_of("{};") != std::string::npos) {
    fail(file, fmt::format("policy: expected one spec, found '{}'", recipe.policy));
  }
  if (is_recipe(recipe.policy)) {
    fail(file,
         fmt::format("policy: '{}' is a recipe, too; write the policy itself", recipe.policy));
  }
  recipe.name = text_of(root, "name", file);
  for (const auto& entry : root) {
    if (entry.second.IsScalar()) recipe.texts[entry.first.Scalar()] = entry.second.Scalar();
  }
  if (!recipe.name.empty() && (!is_label(recipe.name) || names_a_policy(recipe.name))) {
    fail(file, fmt::format("name: expected letters, digits, '_', '-' and '.', and not the name of "
                           "a policy, found '{}'",
                           recipe.name));
  }
  return recipe;
}

}  // namespace kvsim
