#include "tests/bench/structured_heads.h"

#include <cmath>

#include "traces/synth/synth_head.h"

namespace kvsim::bench {
namespace {

// Every fourth head looks back one period of the text, whatever their number.
constexpr int kRetrievalPeriod = 4;

Unit structured_head(const SynthOptions& options, const std::vector<std::int32_t>& text, int head) {
  const SynthHead synth(options, text, 0, head);
  const int looks_back = 0;
  const int looks_near = options.query_heads - 1;
  Unit unit;
  unit.name = {"bench", 0, head};
  unit.scale = 1 / std::sqrt(static_cast<float>(options.head_dim));
  unit.query = {synth.query(head % kRetrievalPeriod == 0 ? looks_back : looks_near)};
  unit.key = synth.key();
  unit.value = synth.value(options.head_dim);
  return unit;
}

}  // namespace

std::vector<Unit> structured_heads(const Shape& shape, std::uint64_t seed) {
  SynthOptions options;
  options.tokens = shape.tokens;
  options.head_dim = shape.head_dim;
  options.seed = seed;
  // Stronger than the defaults of `kvsim synth`, for losses of real heads: at 20% H2O loses some 8%
  // of the attention.
  options.sink_strength = 6;
  options.local_strength = 5;
  options.local_decay = 0.98;
  options.heavy_exponent = 1.2;
  const std::vector<std::int32_t> text = synth_text(options);
  std::vector<Unit> heads;
  for (int head = 0; head < shape.heads; ++head) {
    heads.push_back(structured_head(options, text, head));
  }
  return heads;
}

}  // namespace kvsim::bench
