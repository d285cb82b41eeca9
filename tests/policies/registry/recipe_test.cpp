#include "policies/registry/recipe.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "policies/registry/spec.h"
#include "sim/base/errors.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::recipe_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

std::string written(const TemporaryFolder& folder, const std::string& keys) {
  const auto path = folder / "r.yaml";
  std::ofstream(path) << keys;
  return "recipe:file=" + path.string();
}

std::string recipe_of(const TemporaryFolder& folder, const std::string& policy) {
  return written(folder, "kvsim_recipe: 1\npolicy: " + policy + "\nname: found\n");
}

TEST_CASE("a recipe is the policy that its file names, under the recipe's name", "[policies]") {
  const TemporaryFolder folder;
  const Spec spec(recipe_of(folder, "h2o:recent=0.1+protect:first=4@pyramid"));
  CHECK(spec.text() == Spec("h2o:recent=0.1+protect:first=4@pyramid").text());
  CHECK(spec.label() == "found");
  const auto listed = parse_specs("mine=" + recipe_of(folder, "h2o") + ";tova");
  CHECK(listed.front().label() == "mine");
  CHECK(listed.front().text() == Spec("h2o").text());
}

TEST_CASE("what is added to a recipe is added to its policy", "[policies]") {
  const TemporaryFolder folder;
  const std::string bare = recipe_of(folder, "snapkv");
  CHECK(Spec(bare + "+protect:first=2").text() == Spec("snapkv+protect:first=2").text());
  CHECK(Spec(bare + "@cake").text() == Spec("snapkv@cake").text());
  CHECK(parse_specs(bare + ";" + bare + "+protect:first={2,4}").back().label().empty());
  const std::string split = recipe_of(folder, "adakv");
  CHECK(Spec(split + "+protect").text() == Spec("snapkv+protect@adaptive").text());
  CHECK_THROWS_WITH(Spec(split + "@cake"),
                    Contains("r.yaml splits the budget itself, by adaptive"));
}

TEST_CASE("no text of a row opens a recipe", "[policies]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(Spec::stored(recipe_of(folder, "h2o")), UsageError);
  CHECK(Spec::stored("h2o").text() == Spec("h2o").text());
}

TEST_CASE("a recipe's files lie where its own folder says", "[policies]") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  CHECK(Spec(recipe_of(folder, "schedule:file=s.h5")).file() == here + "/s.h5");
  CHECK(Spec(recipe_of(folder, "schedule:file=/a/s.h5")).file() == "/a/s.h5");
  CHECK(Spec(recipe_of(folder, "h2o@file:w.npy")).allocation_spec().file() == here + "/w.npy");
  CHECK(Spec(recipe_of(folder, "h2o@file:w.npy") + "+protect").allocation_spec().file() ==
        here + "/w.npy");
  CHECK(Spec(recipe_of(folder, "h2o") + "@file:w.npy").allocation_spec().file() == "w.npy");
}

struct Refused {
  const char* keys;
  const char* hint;
};

TEST_CASE("a file that is no recipe is refused with its name and the reason", "[policies]") {
  const auto refused =
      GENERATE(Refused{"policy: h2o", "it has no key 'kvsim_recipe'"},
               Refused{"kvsim_recipe: 2\npolicy: h2o", "expected version 1, found 2"},
               Refused{"kvsim_recipe: 1", "it names no policy"},
               Refused{"kvsim_recipe: 1\npolicy: [h2o]", "key 'policy': expected one text"},
               Refused{"kvsim_recipe: 1\npolicy: h20", "did you mean 'h2o'"},
               Refused{"kvsim_recipe: 1\npolicy: h2o;tova", "expected one spec"},
               Refused{"kvsim_recipe: 1\npolicy: recipe:file=b.yaml", "is a recipe, too"},
               Refused{"kvsim_recipe: 1\npolicy: h2o\nbudgit: 20%", "did you mean 'budget'"},
               Refused{"kvsim_recipe: 1\npolicy: h2o\npolicy: tova", "'policy' is given twice"},
               Refused{"kvsim_recipe: 1\npolicy: h2o\nname: tova", "not the name of a policy"},
               Refused{"h2o", "expected keys and values"}, Refused{"a: [", "neither YAML nor JSON"},
               Refused{"a: 1\n---\nb: 2\n", "expected one document"});
  const TemporaryFolder folder;
  const std::string spec = written(folder, refused.keys);
  CHECK_THROWS_AS(Spec(spec), DataError);
  CHECK_THROWS_WITH(Spec(spec), Contains("r.yaml: ") && Contains(refused.hint));
}

TEST_CASE("a recipe names one file that exists", "[policies]") {
  CHECK_THROWS_WITH(Spec("recipe"), Contains("recipe needs a file"));
  CHECK_THROWS_WITH(Spec("recipe:path=a"), Contains("it has file alone"));
  CHECK_THROWS_WITH(Spec("recipe:file=none.yaml"), Contains("none.yaml: no such file"));
  CHECK_THROWS_AS(parse_specs("recipe=h2o"), UsageError);
}

}  // namespace kvsim::recipe_test
