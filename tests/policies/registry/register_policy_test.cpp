#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/registry/spec_list.h"
#include "sim/base/errors.h"

namespace kvsim::register_policy_test {

using Catch::Matchers::Contains;

class Keeps final : public Policy {
 public:
  Keeps(const Params& params, const Context&)
      : rules_{.protect_first = static_cast<int>(params.integer("first"))} {}
  Rules rules() const override { return rules_; }

 private:
  Rules rules_;
};

PolicyInfo registered(const std::string& name, const std::string& origin = "Python",
                      char digest = '1') {
  return {.name = name,
          .keeps = "what a test says",
          .source = "a test",
          .sees = "nothing",
          .differences = "",
          .params = {Param::integer("first", 3, 0, 100, "tokens that stay")},
          .make = make_policy<Keeps>,
          .code = std::string(64, digest),
          .origin = origin};
}

bool is_among(const std::vector<Spec>& specs, const std::string& text) {
  return std::any_of(specs.begin(), specs.end(),
                     [&](const Spec& spec) { return spec.text() == text; });
}

TEST_CASE("a registered policy is parsed, listed and made as one that is built in") {
  register_policy(registered("keeps-some"));
  const Spec spec("keeps-some:first=7+protect:last=2");
  CHECK(spec.rules({}).protect_first == 7);
  CHECK(spec.rules({}).protect_newest == 2);
  CHECK(spec.code().starts_with(std::string(64, '1') + ' '));
  CHECK(is_among(parse_specs("keeps-some;window"), "keeps-some:first=3"));
  CHECK_FALSE(is_among(parse_specs("all"), "keeps-some:first=3"));
  CHECK_THROWS_WITH(Spec("keeps-sone"), Contains("did you mean 'keeps-some'"));
}

TEST_CASE("registering a name again replaces it, and specs of the earlier one keep it") {
  register_policy(registered("keeps-again"));
  const Spec earlier("keeps-again");
  register_policy(registered("keeps-again", "Python", '2'));
  CHECK(earlier.code() == std::string(64, '1'));
  CHECK(Spec("keeps-again").code() == std::string(64, '2'));
  const auto has_name = [](const PolicyInfo& policy) { return policy.name == "keeps-again"; };
  CHECK(std::count_if(policies().begin(), policies().end(), has_name) == 1);
}

TEST_CASE("a policy cannot take a name that has another meaning") {
  register_policy(registered("keeps-mine"));
  const auto refusal = [](const std::string& name) {
    try {
      register_policy(registered(name, "libmine.so"));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("registered");
  };
  CHECK_THAT(refusal("h2o"), Contains("built in"));
  CHECK_THAT(refusal("keeps-mine"), Contains("a policy of Python has this name"));
  CHECK_THAT(refusal("streamingllm"), Contains("lists of policies"));
  CHECK_THAT(refusal("all"), Contains("lists of policies"));
  CHECK_THAT(refusal("oracles"), Contains("lists of policies"));
  for (const char* name : {"", "Mine", "my policy", "mine:a=1", "a+b", "1st"}) {
    CHECK_THAT(refusal(name), Contains("expected a name of lower-case letters"));
  }
}

}  // namespace kvsim::register_policy_test
