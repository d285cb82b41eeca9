// The full cache, the reference for every other policy.

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Full final : public Policy {
 public:
  Full(const Params&, const Context&) {}

  Rules rules() const override { return {.bounded = false}; }

  void update(const Step&, std::span<double>) override {}
};

}  // namespace

PolicyInfo full_policy() {
  return {.name = "full",
          .keeps = "every token; the budget does not apply",
          .source = "the reference",
          .sees = "nothing",
          .differences = "",
          .params = {},
          .make = make_policy<Full>};
}

}  // namespace kvsim
