#include "policies/registry/spec.h"

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "policies/registry/standard_policies.h"
#include "sim/base/errors.h"

namespace kvsim::spec_test {

// What the canonical form of h2o shows after recent and score.
const std::string kRest = ",overlap=no,precision=double,positions=text,keep=heavy";

std::string canonical(const char* text) { return Spec(text).text(); }

TEST_CASE("the canonical form shows every parameter in declared order", "[policies]") {
  CHECK(canonical("full") == "full");
  CHECK(canonical("window") == "window");
  CHECK(canonical("sink") == "sink:sinks=4,positions=text");
  CHECK(canonical("random") == "random");
  CHECK(canonical("h2o") == "h2o:recent=0.5,score=sum" + kRest);
  CHECK(canonical("h2o:score=mean") == "h2o:recent=0.5,score=mean" + kRest);
  CHECK(canonical("h2o:score=full,recent=8") == "h2o:recent=8,score=full" + kRest);
}

TEST_CASE("however a value is written, the canonical form is the same", "[policies]") {
  CHECK(canonical("h2o:recent=50%") == canonical("h2o"));
  CHECK(canonical("h2o:recent=0.50") == canonical("h2o"));
  CHECK(canonical("h2o:recent=8") == "h2o:recent=8,score=sum" + kRest);
  CHECK(canonical("h2o:recent=0") == "h2o:recent=0,score=sum" + kRest);
  CHECK(canonical("h2o:recent=1.0") == "h2o:recent=1.0,score=sum" + kRest);
  CHECK(canonical("h2o:recent=100%") == "h2o:recent=1.0,score=sum" + kRest);
  CHECK(canonical("h2o:recent=1") == "h2o:recent=1,score=sum" + kRest);
}

TEST_CASE("every policy's canonical form names the same policy again", "[policies]") {
  for (const PolicyInfo& policy : policies()) {
    if (policy.reads_file()) continue;
    const std::string text = Spec(policy).text();
    CHECK(Spec(text).text() == text);
    CHECK(Spec(policy.name).text() == text);
    CHECK(&Spec(text).policy() == &policy);
    CHECK_FALSE(policy.keeps.empty());
    CHECK_FALSE(policy.source.empty());
    CHECK_FALSE(policy.sees.empty());
  }
}

struct Refused {
  const char* spec;
  const char* hint;
};

TEST_CASE("a spec that cannot be meant is refused with a hint", "[policies]") {
  const auto refused = GENERATE(
      Refused{"h20", "'h2o'"}, Refused{"windw", "'window'"}, Refused{"tova2", "'tova'"},
      Refused{"sinks", "'sink'"}, Refused{"", "policy"}, Refused{":recent=1", "policy"},
      Refused{"H2O", "policy"}, Refused{" h2o", "'h2o'"}, Refused{"h2o:recnt=0.5", "'recent'"},
      Refused{"h2o:scor=sum", "'score'"}, Refused{"sink:sink=4", "'sinks'"},
      Refused{"h2o:recent", "key=value"}, Refused{"h2o:", "key=value"},
      Refused{"h2o:recent=1,", "key=value"}, Refused{"h2o:,recent=1", "key=value"},
      Refused{"h2o:=1", "recent"}, Refused{"h2o:recent=", "recent"},
      Refused{"h2o:recent=-1", "recent"}, Refused{"h2o:recent=1.5", "recent"},
      Refused{"h2o:recent=abc", "recent"}, Refused{"h2o:recent=5 %", "recent"},
      Refused{"h2o:recent=nan", "recent"}, Refused{"h2o:recent=1e400", "recent"},
      Refused{"h2o:recent=inf", "recent"}, Refused{"h2o:recent=1=2", "recent"},
      Refused{"h2o:score=summ", "'sum'"}, Refused{"h2o:score=", "sum|mean|full"},
      Refused{"sink:sinks=-1", "sinks"}, Refused{"sink:sinks=2.5", "sinks"},
      Refused{"sink:sinks=99999999999", "sinks"}, Refused{"full:recent=1", "full"},
      Refused{"h2o@bogus+quant@pyramid", "allocation"},
      Refused{"h2o@pyramid@uniform", "allocation"},
      Refused{"h2o+quant@bogus:bits=2@uniform", "allocation"}, Refused{"h2o@", "allocation"},
      Refused{"h2o:recent=1,recent=2", "given twice"}, Refused{"window:size=3", "window"});
  CAPTURE(refused.spec);
  CHECK_THROWS_AS(Spec(refused.spec), UsageError);
  CHECK_THROWS_WITH(Spec(refused.spec), Catch::Contains(refused.hint));
}

std::vector<std::string> texts(std::string_view list) {
  std::vector<std::string> texts;
  for (const Spec& spec : parse_specs(list)) texts.push_back(spec.text());
  return texts;
}

TEST_CASE("a list of specs is separated by semicolons", "[policies]") {
  CHECK(texts("window") == std::vector<std::string>{"window"});
  CHECK(texts("h2o:recent=8,score=mean;window") ==
        std::vector<std::string>{"h2o:recent=8,score=mean" + kRest, "window"});
}

TEST_CASE("a policy named twice is kept once, in its first place", "[policies]") {
  CHECK(texts("window;h2o;window;h2o:recent=50%;h2o:recent=8") ==
        std::vector<std::string>{"window", canonical("h2o"), canonical("h2o:recent=8")});
}

TEST_CASE("'all' is every policy at its defaults that needs no file", "[policies]") {
  std::vector<std::string> every;
  for (const PolicyInfo& policy : policies()) {
    const bool is_oracle = policy.make_planner != nullptr;
    if (policy.origin != "Python" && !policy.reads_file() && !is_oracle)
      every.push_back(Spec(policy).text());
  }
  CHECK(texts("all") == every);
  CHECK(texts("all;window") == every);
  CHECK(texts("h2o:recent=8;all").size() == every.size() + 1);
}

TEST_CASE("'oracles' is every oracle at its defaults", "[policies]") {
  const std::vector<std::string> oracles = texts("oracles");
  CHECK(oracles.front() == recall_optimum());
  for (const std::string& oracle : oracles) CHECK(Spec(oracle).is_oracle());
  CHECK(texts("all;oracles").size() == texts("all").size() + oracles.size());
}

TEST_CASE("a list with a wrong spec or without any is refused", "[policies]") {
  CHECK_THROWS_AS(parse_specs("window;h20"), UsageError);
  CHECK_THROWS_AS(parse_specs(""), UsageError);
  CHECK_THROWS_AS(parse_specs(";"), UsageError);
}

TEST_CASE("spec: a combinator that adds an entry stands once") {
  CHECK_THROWS_WITH(Spec("window+rest+protect+rest"), Catch::Contains("+rest stands twice"));
}

}  // namespace kvsim::spec_test
