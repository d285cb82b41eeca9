#include "sim/results/policy_code.h"

#include <catch2/catch.hpp>

namespace kvsim::policy_code_test {

TEST_CASE("a policy's code changes with its source and with the engine's numbers", "[store]") {
  const Spec h2o("h2o");
  CHECK_THAT(policy_code(h2o), Catch::Matches("[0-9a-f]{16}"));
  CHECK(policy_code(h2o) == policy_code(Spec("h2o:recent=0")));
  PolicyInfo changed = h2o.policy();
  changed.code += "changed";
  CHECK(policy_code(Spec(changed)) != policy_code(h2o));
  CHECK(policy_code(h2o, kResultsVersion + 1) != policy_code(h2o));
}

TEST_CASE("a row is current if the present code of its policy made it", "[store]") {
  Result row;
  row.policy = "h2o:recent=0.5";
  row.policy_code = policy_code(Spec("h2o"));
  CHECK(is_current(row));
  row.policy_code = policy_code(Spec("tova"));
  CHECK_FALSE(is_current(row));
  row.policy_code = "";
  CHECK_FALSE(is_current(row));
  row.policy = "of-another-version:parameter=1";
  CHECK_FALSE(is_current(row));
}

}  // namespace kvsim::policy_code_test
