#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "tests/support/temporary_folder.h"
#include "traces/synth/synth.h"

namespace kvsim::traces_test::synth_errors_test {

struct Fault {
  std::function<void(SynthOptions&)> make;
  std::string error;
};

const std::vector<Fault> kFaults = {
    {[](SynthOptions& o) { o.tokens = 0; }, "tokens: expected an integer of at least 1, found 0"},
    {[](SynthOptions& o) { o.prompt_length = 1025; },
     "prompt_length: expected an integer in 0..1024, found 1025"},
    {[](SynthOptions& o) { o.layers = 0; }, "layers: "},
    {[](SynthOptions& o) { o.kv_heads = 0; }, "kv_heads: "},
    {[](SynthOptions& o) { o.query_heads = 0; }, "query_heads: "},
    {[](SynthOptions& o) { o.query_heads = 3; },
     "query_heads: expected a multiple of kv_heads = 2, found 3"},
    {[](SynthOptions& o) { o.head_dim = 0; }, "head_dim: "},
    {[](SynthOptions& o) { o.value_dim = -1; }, "value_dim: "},
    {[](SynthOptions& o) { o.sinks = -1; }, "sinks: "},
    {[](SynthOptions& o) { o.sink_strength = -1; },
     "sink_strength: expected a number in [0, 100], found -1"},
    {[](SynthOptions& o) { o.local_strength = 101; }, "local_strength: "},
    {[](SynthOptions& o) { o.local_decay = 1; },
     "local_decay: expected a number in [0, 1), found 1"},
    {[](SynthOptions& o) { o.local_decay = -0.5; }, "local_decay: "},
    {[](SynthOptions& o) { o.heavy_strength = std::nan(""); }, "heavy_strength: "},
    {[](SynthOptions& o) { o.heavy_exponent = 0; }, "heavy_exponent: "},
    {[](SynthOptions& o) { o.retrieval_share = 1.5; },
     "retrieval_share: expected a number in [0, 1], found 1.5"},
    {[](SynthOptions& o) { o.retrieval_strength = -1; }, "retrieval_strength: "},
    {[](SynthOptions& o) { o.retrieval_period = 1025; }, "retrieval_period: "},
    {[](SynthOptions& o) { o.drift = -1; }, "drift: "},
    {[](SynthOptions& o) { o.noise = INFINITY; }, "noise: "},
    {[](SynthOptions& o) { o.sink_logit = -101; },
     "sink_logit: expected a number in [-100, 100], found -101"},
    {[](SynthOptions& o) { o.attention_chunk = -1; }, "attention_chunk: "},
    {[](SynthOptions& o) { o.threads = 0; }, "threads: expected an integer of at least 1, found 0"},
};

TEST_CASE("an option out of range is named with its range") {
  const TemporaryFolder folder;
  for (const Fault& fault : kFaults) {
    SynthOptions options;
    fault.make(options);
    INFO(fault.error);
    CHECK_THROWS_AS(synthesize(folder / "t.h5", options), std::invalid_argument);
    CHECK_THROWS_WITH(synthesize(folder / "t.h5", options), Catch::StartsWith(fault.error));
    CHECK_FALSE(std::filesystem::exists(folder / "t.h5"));
  }
}

TEST_CASE("a caller's failure ends the work of all threads, and no file is left") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.kv_heads = 4;
  options.threads = 4;
  const auto fail = [](double share) {
    if (share > 0) throw std::runtime_error("enough");
  };
  CHECK_THROWS_WITH(synthesize(folder / "t.h5", options, fail), "enough");
  CHECK_FALSE(std::filesystem::exists(folder / "t.h5"));
}

}  // namespace kvsim::traces_test::synth_errors_test
