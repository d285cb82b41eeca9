#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "sim/base/errors.h"

namespace kvsim::presets_test {

std::string canonical(const std::string& text) { return Spec(text).text(); }

std::string message(const std::string& text) {
  try {
    Spec{text};
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a preset sets what it names and leaves the rest at its defaults", "[policies]") {
  CHECK(canonical("h2o:preset=lm-eval") ==
        "h2o:recent=0.5,score=full,overlap=yes,precision=double,positions=text,keep=heavy");
  CHECK(canonical("h2o:preset=streaming") ==
        "h2o:recent=2000,score=sum,overlap=no,precision=double,positions=slot,keep=heavy");
  CHECK(canonical("h2o:preset=flexgen") ==
        "h2o:recent=0.5,score=sum,overlap=no,precision=half,positions=text,keep=heavy");
  CHECK(canonical("h2o:preset=kvpress") ==
        "h2o:recent=0,score=mean,overlap=no,precision=double,positions=text,keep=heavy");
  CHECK(canonical("h2o:preset=openvino") == canonical("h2o:score=mean"));
  CHECK(canonical("scissorhands:preset=official") ==
        "scissorhands:history=100,recent=10,drop=0,important=percentile,rank=any");
  CHECK(canonical("scissorhands:preset=cold-compress") ==
        "scissorhands:history=400,recent=10,drop=0,important=cache,rank=share");
}

TEST_CASE("a preset that sets nothing is the defaults", "[policies]") {
  CHECK(canonical("h2o:preset=masked") == canonical("h2o"));
  CHECK(canonical("h2o:preset=real-drop") == canonical("h2o"));
  CHECK(canonical("scissorhands:preset=paper") == canonical("scissorhands"));
}

TEST_CASE("explicit settings override a preset wherever it stands", "[policies]") {
  const std::string expected =
      "h2o:recent=8,score=sum,overlap=yes,precision=double,positions=text,keep=heavy";
  CHECK(canonical("h2o:preset=lm-eval,recent=8,score=sum") == expected);
  CHECK(canonical("h2o:recent=8,score=sum,preset=lm-eval") == expected);
  CHECK(canonical("h2o:recent=8,preset=lm-eval,score=sum") == expected);
}

TEST_CASE("a preset can be combined with combinators", "[policies]") {
  CHECK(canonical("tova:preset=paper+protect:first=2,last=4") ==
        "tova:scope=layer,score=cached+protect:first=2,last=4");
}

TEST_CASE("an unknown preset is refused with the nearest one", "[policies]") {
  CHECK_THAT(message("h2o:preset=flexgn"), Catch::Contains("policy h2o has no preset 'flexgn'") &&
                                               Catch::Contains("did you mean 'flexgen'?") &&
                                               Catch::Contains("real-drop"));
  CHECK_THAT(message("h2o:preset="), Catch::Contains("policy h2o has no preset ''"));
}

TEST_CASE("a policy without presets says so", "[policies]") {
  CHECK_THAT(message("window:preset=paper"), Catch::Contains("policy window has no presets"));
  CHECK_THAT(message("h2o+protect:preset=paper"),
             Catch::Contains("combinator protect has no parameter 'preset'"));
}

TEST_CASE("two presets at once are refused", "[policies]") {
  CHECK_THAT(message("h2o:preset=masked,preset=flexgen"),
             Catch::Contains("'preset' is given twice"));
}

TEST_CASE("parameters next to a preset are checked as ever", "[policies]") {
  CHECK_THAT(message("h2o:preset=flexgen,recent=1,recent=2"), Catch::Contains("given twice"));
  CHECK_THAT(message("h2o:preset=flexgen,scor=sum"), Catch::Contains("'score'"));
}

TEST_CASE("a preset that sees the future is refused and sent to the oracles", "[policies]") {
  CHECK_THAT(message("h2o:preset=lm-eval-llama"),
             Catch::StartsWith("preset lm-eval-llama of policy h2o sees the future (") &&
                 Catch::EndsWith("); it belongs to the oracles"));
  CHECK_THAT(message("h2o:recent=4,preset=lm-eval-llama"), Catch::Contains("sees the future"));
}

TEST_CASE("every preset names a policy, or sees the future and is refused", "[policies]") {
  int presets = 0;
  for (const PolicyInfo& policy : policies()) {
    for (const Preset& preset : policy.presets) {
      ++presets;
      const std::string text = policy.name + ":preset=" + preset.name;
      CAPTURE(text);
      CHECK_FALSE(preset.reproduces.empty());
      if (preset.acausal) {
        CHECK_THROWS_AS(Spec(text), UsageError);
        continue;
      }
      const Spec spec(text);
      CHECK(&spec.policy() == &policy);
      CHECK(spec.text().find("preset") == std::string::npos);
      CHECK(Spec(spec.text()).text() == spec.text());
      if (preset.settings.empty()) {
        CHECK(spec.text() == Spec(policy).text());
      } else {
        CHECK(spec.text() == Spec(policy.name + ":" + preset.settings).text());
      }
    }
  }
  CHECK(presets >= 12);
}

TEST_CASE("no parameter and no two presets of a policy share a name", "[policies]") {
  for (const PolicyInfo& policy : policies()) {
    for (const Param& param : policy.params) CHECK(param.name != "preset");
    std::vector<std::string> names;
    for (const Preset& preset : policy.presets) names.push_back(preset.name);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  }
}

}  // namespace kvsim::presets_test
