#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/running/running_text.h"
#include "tests/support/variants.h"

namespace kvsim::shared_caches_test {

using namespace running_test;
using namespace test_support;

/// The text in which the second layer reads the cache of the first.
ModelShape shared_shape(const Text& text) {
  ModelShape shape = text.shape();
  const ModelLayer reader = shape.layers.back();
  shape.layers.pop_back();
  shape.layers[0].readers = {{reader.index, reader.shape.num_query_heads, reader.sink_logit}};
  return shape;
}

/// The units of the first layer, with the queries of both.
std::vector<Unit> joined(const Text& text) {
  std::vector<Unit> units(text.units.begin(), text.units.begin() + 2);
  for (std::size_t head = 0; head < 2; ++head) {
    const Unit& reader = text.units[2 + head];
    units[head].query.insert(units[head].query.end(), reader.query.begin(), reader.query.end());
    units[head].sink_logit.insert(units[head].sink_logit.end(), reader.sink_logit.begin(),
                                  reader.sink_logit.end());
  }
  return units;
}

RunningCaches shared_caches(const Text& text, const std::string& policy,
                            const ReplayOptions& options) {
  return RunningCaches(
      {Spec(policy), 13}, shared_shape(text),
      {text.units[0].name.sequence, options.protocol.mode == Mode::prefill ? kPrompt : 0, kTokens},
      options);
}

void feed_shared(const Text& text, RunningCaches& caches, int first, int piece) {
  for (int begin = 0, end = first; begin < kTokens;
       begin = end, end = std::min(kTokens, end + piece)) {
    const Rows owner(std::span(text.units).first(2), begin, end - begin);
    const Rows reader(std::span(text.units).subspan(2, 2), begin, end - begin);
    caches.advance(text.units[0].name.layer, owner.rows, nullptr);
    caches.add_queries(text.units[2].name.layer, reader.rows);
    caches.end_forward();
  }
}

TEST_CASE("a shared cache in a running model evicts what a replay of all its readers evicts") {
  const Text text = GENERATE(Text(), Text(1.F));
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const auto backend = make_cpu_backend();
  for (const char* name : {"full", "window", "sink", "h2o", "tova:scope=layer", "snapkv", "spatten",
                           "scissorhands", "lookback", "obcache"}) {
    ReplayOptions options = options_for(Spec(name), {.protocol = {.mode = mode}});
    options.trajectories = true;
    if (options.protocol.mode != mode) continue;  // a policy of the prompt alone
    const auto units = joined(text);
    const auto outcomes = replay_together(units, {{Spec(name), 13}}, options, *backend).front();
    RunningCaches caches = shared_caches(text, name, options);
    INFO(name);
    const bool in_pieces = !caches.takes_single_steps();
    feed_shared(text, caches, mode == Mode::prefill ? kPrompt : 1, in_pieces ? 9 : 1);
    for (std::size_t head = 0; head < 2; ++head) {
      const CacheUsage usage = caches.usage(text.units[0].name.layer)[head];
      CHECK(usage.evicted_after == outcomes[head].trajectory.evicted_after);
      CHECK(static_cast<std::int64_t>(usage.peak_bytes) == outcomes[head].result.cache_bytes);
    }
  }
}

TEST_CASE("every reader of a cache has to add its queries") {
  const Text text;
  RunningCaches caches = shared_caches(text, "h2o", {});
  const int owner = text.units[0].name.layer;
  const int reader = text.units[2].name.layer;
  const Rows one(std::span(text.units).first(2), 0, 1);
  const Rows two(std::span(text.units).subspan(2, 2), 0, 2);
  caches.advance(owner, one.rows, nullptr);
  CHECK_THROWS_WITH(caches.end_forward(), Catch::Contains("has 0 tokens, expected 1"));
  CHECK_THROWS_WITH(caches.add_queries(reader, two.rows),
                    Catch::Contains("expected 1 tokens, as of layer"));
  CHECK_THROWS_WITH(caches.add_queries(owner, one.rows),
                    Catch::Contains("reads no cache of another layer"));
}

TEST_CASE("what needs outputs at once cannot follow a shared cache") {
  CHECK_THROWS_AS(shared_caches(Text(), "h2o+quant:bits=4", {}), UsageError);
}

}  // namespace kvsim::shared_caches_test
