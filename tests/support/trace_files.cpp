#include "tests/support/trace_files.h"

#include "tests/support/small_trace.h"
#include "tests/support/units.h"

namespace kvsim::test_support {

namespace {

/// Writes what follows a layer's heads; the projection is the same for all sequences.
void write_downstream(TraceWriter& writer, int layer, int tokens, int hidden, bool is_first) {
  const UnitShape shape{
      .tokens = tokens, .head_dim = 1, .value_dim = 3, .group = 4, .gradient_samples = 2};
  const auto seed = static_cast<std::uint64_t>(1000 + layer);
  if (is_first)
    writer.write_projection(layer, random_unit({.tokens = 12, .head_dim = hidden}, seed).key);
  writer.write_rows(Dataset::residual,
                    random_unit({.tokens = tokens, .head_dim = hidden}, seed + 10).key);
  writer.write_gradients(random_unit(shape, seed + 20).output_score_grad, 0);
}

}  // namespace

void write_random_trace(const std::filesystem::path& file, std::uint64_t seed, int prompt_length,
                        int hidden) {
  TraceHeader header = traces_test::small_header();
  header.shape.rope = Rope{.inverse_frequency = {1, 0.1}, .style = "half"};
  TraceWriter writer(file, header, ElementType::float32);
  for (const auto& [name, tokens] : {std::pair{"a", kLongSequence}, {"b", kShortSequence}}) {
    writer.begin_sequence(name, tokens, prompt_length, "", {});
    for (int layer = 0; layer < header.num_layers; ++layer) {
      std::vector<Matrix> query, key, value;
      for (int head = 0; head < header.shape.num_kv_heads; ++head) {
        Unit unit =
            random_unit({.tokens = tokens, .head_dim = 4, .value_dim = 3, .group = 2}, seed++);
        for (Matrix& member : unit.query) query.push_back(std::move(member));
        key.push_back(std::move(unit.key));
        value.push_back(std::move(unit.value));
      }
      writer.write_layer(layer, query, key, value, {});
      if (hidden > 0) write_downstream(writer, layer, tokens, hidden, name == std::string("a"));
    }
  }
  writer.close();
}

}  // namespace kvsim::test_support
