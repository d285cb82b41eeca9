// The program with a policy of one's own, for those who write C++: all verbs know it.

#include "policies/registry/registry.h"
#include "sim/cli/program.h"

namespace {

/// Keeps the tokens whose keys are longest, or shortest, as the built-in knorm does.
class KeyLength final : public kvsim::Policy {
 public:
  KeyLength(const kvsim::Params& params, const kvsim::Context&)
      : sign_(params.choice("keep") == "long" ? 1 : -1) {}

  void update(const kvsim::Step& step, std::span<double> scores) override {
    double square = 0;
    for (const float number : step.keys[scores.size() - 1]) square += double{number} * number;
    scores.back() = sign_ * square;
  }

 private:
  int sign_;
};

}  // namespace

int main(int argc, char** argv) {
  kvsim::register_policy(
      {.name = "key-length",
       .keeps = "the tokens with the longest keys, or the shortest",
       .source = "an example",
       .sees = "keys",
       .differences = "",
       .params = {kvsim::Param::choice("keep", {"long", "short"}, "which keys stay")},
       .nests = kvsim::always_nests,
       .make = kvsim::make_policy<KeyLength>,
       .code = "1",  // another one, when its scores change: old rows are then made again
       .origin = "own_program"});
  return kvsim::cli::run_program(argc, argv);
}
