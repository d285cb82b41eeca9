// The engine's kernels on one thread: the exact attention pass, and one replay on top of it for
// each kind of policy.

#include <benchmark/benchmark.h>

#include "sim/attention/attention_blocks.h"
#include "sim/base/amount.h"
#include "sim/replay/replay.h"
#include "tests/bench/cases.h"
#include "tests/bench/structured_heads.h"

namespace kvsim::bench {
namespace {

using benchmark::Counter;

Unit one_head(const benchmark::State& state) {
  const auto tokens = static_cast<int>(state.range(0));
  const auto head_dim = static_cast<int>(state.range(1));
  return structured_heads({tokens, head_dim, 1}, 1).front();
}

void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      Counter(per_iteration * static_cast<double>(state.iterations()), Counter::kIsRate);
}

void exact_pass(benchmark::State& state) {
  const Unit unit = one_head(state);
  const auto backend = make_cpu_backend();
  const int tokens = unit.num_tokens();
  int blocks = 0;
  for (auto _ : state) {
    blocks = 0;
    for_each_block(unit, tokens, *backend, [&](const AttentionBlock&) { ++blocks; });
  }
  const auto head_dim = static_cast<int>(unit.key.cols());
  set_rate(state, "FLOP/s", 2 * pair_flops(tokens, tokens, head_dim));
  set_rate(state, "blocks/s", blocks);
}

void replay_one(benchmark::State& state, const char* policy) {
  const Unit unit = one_head(state);
  const auto backend = make_cpu_backend();
  const int budget = Amount::parse("20%", "budget").of(unit.num_tokens());
  const std::vector<Configuration> configurations = {{Spec(policy), budget}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(replay(unit, configurations, {}, *backend));
  }
  set_rate(state, "tokens/s", unit.num_tokens());
}

BENCHMARK(exact_pass)
    ->ArgNames({"tokens", "head_dim"})
    ->ArgsProduct({{512, 2048, 4096}, {64, 128}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

#define KVSIM_BENCH_REPLAY(name, policy)      \
  BENCHMARK_CAPTURE(replay_one, name, policy) \
      ->ArgNames({"tokens", "head_dim"})      \
      ->Args({2048, 128})                     \
      ->Unit(benchmark::kMillisecond)         \
      ->UseRealTime()

KVSIM_BENCH_REPLAY(h2o, "h2o");
KVSIM_BENCH_REPLAY(h2o_full, "h2o:score=full");
KVSIM_BENCH_REPLAY(tova, "tova");
KVSIM_BENCH_REPLAY(sink, "sink");

}  // namespace
}  // namespace kvsim::bench

BENCHMARK_MAIN();
