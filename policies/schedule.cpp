// Follows an eviction schedule, which names for each token the step after which it is evicted. A
// schedule comes from an earlier replay, another program or an oracle.

#include <limits>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Scheduled final : public Policy {
 public:
  Scheduled(const Params&, const Context& context)
      : leaves_after_(context.schedule.begin(), context.schedule.end()) {}

  Rules rules() const override { return {.prunes = true, .ignores_interval = true}; }

  void update(const Step& step, std::span<double> scores) override {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const bool leaves = leaves_after_[static_cast<std::size_t>(step.tokens[i])] <= step.index;
      scores[i] = leaves ? -std::numeric_limits<double>::infinity() : 0;
    }
  }

 private:
  std::vector<std::int32_t> leaves_after_;
};

}  // namespace

std::unique_ptr<Policy> make_scheduled(const Params& params, const Context& context) {
  return std::make_unique<Scheduled>(params, context);
}

PolicyInfo schedule_policy() {
  return {.name = "schedule",
          .keeps = "what a file says: `evicted_after` as --per-step writes it",
          .source = "none; the caller's",
          .sees = "the schedule",
          .differences = "",
          .params = {Param::text("file", "per-step file (HDF5) with a schedule for each unit"),
                     Param::text("sha256", "what the file has to hold; filled in when it is read")},
          .follows_schedule = true,
          .make = make_scheduled};
}

}  // namespace kvsim
