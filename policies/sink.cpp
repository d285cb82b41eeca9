// Attention sinks: the first tokens and the most recent ones (StreamingLLM: Xiao et al., ICLR
// 2024, section 3.2).

#include "policies/registry.h"

namespace kvsim {
namespace {

class Sink final : public Policy {
 public:
  Sink(const Params& params, const Context&) : sinks_(params.integer("sinks")) {}

  Rules rules() const override { return {.protect_first = sinks_}; }

  void update(const Step& step, std::span<double> scores) override { scores.back() = step.index; }

 private:
  int sinks_;
};

}  // namespace

PolicyInfo sink_policy() {
  return {.name = "sink",
          .keeps = "the first tokens and the most recent rest",
          .source = "StreamingLLM section 3.2",
          .sees = "nothing",
          .differences =
              "keys stay at their text positions; the paper's code rotates them by cache slot",
          .params = {Param::integer("sinks", 4, 0, 1'000'000, "first tokens that always stay")},
          .make = make_policy<Sink>};
}

}  // namespace kvsim
