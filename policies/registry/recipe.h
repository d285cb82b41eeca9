#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// What stands in place of a policy for what a file says: `recipe:file=PATH`.
inline constexpr std::string_view kRecipe = "recipe";

/// A file of YAML with a policy that a search has found, as kvsim.tune writes it (python/tune.md).
struct Recipe {
  std::string file;
  std::string policy;  ///< a spec; what it names of files is relative to the folder of `file`
  std::string name;    ///< a label for tables and figures; empty: none
  std::map<std::string, std::string> texts;  ///< of every key that has one text

  /// `path` as it is from here: relative to the recipe's folder unless it is absolute.
  std::string from_here(const std::string& path) const;
};

/// The keys of a recipe with their meanings; the first two are required.
struct RecipeKey {
  std::string name;
  std::string help;
};
const std::vector<RecipeKey>& recipe_keys();

/// Whether the spec `text` names a recipe.
bool is_recipe(std::string_view text);

/// The recipe that the settings after `recipe:` name: `file=PATH`. Throws UsageError for others,
/// and DataError, which names the file, the key and what was expected there, for a file that cannot
/// be read, is no YAML or no recipe, is of another version, or names another recipe.
Recipe read_recipe(std::string_view settings);
Recipe read_recipe_file(const std::string& file);

}  // namespace kvsim
