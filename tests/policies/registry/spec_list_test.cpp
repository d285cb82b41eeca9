#include "policies/registry/spec_list.h"

#include <catch2/catch.hpp>
#include <set>

#include "policies/registry/aliases.h"
#include "sim/base/errors.h"

namespace kvsim::spec_list_test {

using Texts = std::vector<std::string>;

Texts texts(std::string_view list) {
  Texts texts;
  for (const Spec& spec : parse_specs(list)) texts.push_back(spec.text());
  return texts;
}

Texts labels(std::string_view list) {
  Texts labels;
  for (const Spec& spec : parse_specs(list)) labels.push_back(spec.label());
  return labels;
}

TEST_CASE("an alias is the policy that its field calls so", "[policies]") {
  CHECK(texts("streamingllm;adakv;pyramidkv;local") ==
        Texts{Spec("sink").text(), Spec("snapkv@adaptive").text(), Spec("snapkv@pyramid").text(),
              Spec("window").text()});
  CHECK(Spec("Streaming-LLM:sinks=8").text() == Spec("sink:sinks=8").text());
  CHECK(Spec("streaming_llm+quant").text() == Spec("sink+quant").text());
  CHECK(Spec("l2norm@pyramid").text() == Spec("knorm@pyramid").text());
  CHECK(Spec("adakv").alias() == "adakv");
  CHECK(Spec("sink").alias().empty());
  CHECK_THROWS_WITH(Spec("adakv@pyramid"), Catch::Contains("snapkv@adaptive"));
  CHECK_THROWS_WITH(Spec("streamingllm:sink=8"), Catch::Contains("'sinks'"));
}

TEST_CASE("every alias names a policy and is none", "[policies]") {
  std::set<std::string> seen;
  for (const PolicyAlias& alias : policy_aliases()) {
    CAPTURE(alias.name);
    CHECK(seen.insert(alias.name).second);
    CHECK(find_alias(alias.name) == &alias);
    if (alias.allocation != Allocation::duo) {  // which needs a file
      CHECK(Spec(alias.name).text() == Spec(alias.spec()).text());
    }
    for (const PolicyInfo& policy : policies()) CHECK(policy.name != alias.name);
  }
}

TEST_CASE("a grid in a list stands for one spec each", "[policies]") {
  CHECK(texts("window;h2o:recent={0,0.25},score={sum,mean};lru") ==
        Texts{"window", Spec("h2o:recent=0,score=sum").text(),
              Spec("h2o:recent=0,score=mean").text(), Spec("h2o:recent=0.25,score=sum").text(),
              Spec("h2o:recent=0.25,score=mean").text(), Spec("lru").text()});
  CHECK(texts("h2o:recent={0.5,50%}") == texts("h2o"));
  CHECK_THROWS_WITH(parse_specs("h2o:recent={0;window}"), Catch::Contains("recent"));
  CHECK_THROWS_WITH(parse_specs("window;h2o:recent={0,1"), Catch::Contains("not closed"));
}

TEST_CASE("a label goes with its spec and is no part of its text", "[policies]") {
  CHECK(labels("mine=h2o:recent=8;window;B-2.x=tova@pyramid") == Texts{"mine", "", "B-2.x"});
  CHECK(texts("mine=h2o:recent=8") == texts("h2o:recent=8"));
  CHECK(labels("h2o:recent=0.5") == Texts{""});
  CHECK(labels("sink+protect:first=10%@pyramid") == Texts{""});
  CHECK(parse_specs("mine=lru")[0].allocated(Allocation::pyramid).label() == "mine");
  // The same spec with and without a label is one spec, and has it.
  CHECK(labels("lru;mine=lru") == Texts{"mine"});
  CHECK(labels("mine=lru;lru") == Texts{"mine"});
}

TEST_CASE("a label that is ambiguous or no name is refused", "[policies]") {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"a=lru;a=lfu", "given to"},
      {"a=lru;b=lru", "two labels"},
      {"h2o=lru", "name of a policy"},
      {"streamingllm=sink", "name of a policy"},
      {"all=lru", "name of a policy"},
      {"a=all", "one spec"},
      {"a=h2o:recent={0,1}", "one spec"},
      {"=lru", "expected a label"},
      {"my policy=lru", "expected a label"},
      {"1a=lru", "expected a label"},
      {"a=", "unknown policy"},
      {"a=b=lru", "unknown policy"},
      {"a=h20", "'h2o'"}};
  for (const auto& [list, reason] : wrong) {
    CAPTURE(list);
    CHECK_THROWS_AS(parse_specs(list), UsageError);
    CHECK_THROWS_WITH(parse_specs(list), Catch::Contains(reason));
  }
}

TEST_CASE("blanks around the specs of a list are no part of them", "[policies]") {
  const std::vector<Spec> specs = parse_specs(" h2o;  lru ;\n a=window;");
  REQUIRE(specs.size() == 3);
  CHECK(specs[1].text() == Spec("lru").text());
  CHECK(specs[2].label() == "a");
}

TEST_CASE("'all' and 'oracles' may be given other meanings", "[policies]") {
  const NamedSpecs named{.all = [] { return std::vector<Spec>{Spec("lru")}; },
                         .oracles = [] { return std::vector<Spec>{}; }};
  const std::vector<Spec> specs =
      parse_specs(std::vector<std::string>{"window;all;oracles"}, named);
  REQUIRE(specs.size() == 2);
  CHECK(specs[1].text() == Spec("lru").text());
  CHECK(parse_specs(std::vector<std::string>{"oracles"}, named).empty());
}

}  // namespace kvsim::spec_list_test
