#include "tests/support/trace_files.h"

#include "tests/support/small_trace.h"
#include "tests/support/units.h"

namespace kvsim::test_support {

void write_random_trace(const std::filesystem::path& file, std::uint64_t seed, int prompt_length) {
  TraceHeader header = traces_test::small_header();
  header.rope = Rope{.inverse_frequency = {1, 0.1}, .style = "half"};
  TraceWriter writer(file, header, ElementType::float32);
  for (const auto& [name, tokens] : {std::pair{"a", kLongSequence}, {"b", kShortSequence}}) {
    writer.begin_sequence(name, tokens, prompt_length, "", {});
    for (int layer = 0; layer < header.num_layers; ++layer) {
      std::vector<Matrix> query, key, value;
      for (int head = 0; head < header.num_kv_heads; ++head) {
        Unit unit =
            random_unit({.tokens = tokens, .head_dim = 4, .value_dim = 3, .group = 2}, seed++);
        for (Matrix& member : unit.query) query.push_back(std::move(member));
        key.push_back(std::move(unit.key));
        value.push_back(std::move(unit.value));
      }
      writer.write_layer(layer, query, key, value, {});
    }
  }
  writer.close();
}

}  // namespace kvsim::test_support
