#include "tests/bench/recorded_heads.h"

#include "traces/trace_writer.h"

namespace kvsim::bench {

void write_trace(const std::vector<Unit>& heads, const std::filesystem::path& file) {
  const Unit& first = heads.front();
  TraceHeader header;
  header.model = "bench";
  header.num_layers = 1;
  header.shape.num_query_heads = static_cast<int>(heads.size());
  header.shape.num_kv_heads = static_cast<int>(heads.size());
  header.shape.head_dim = static_cast<int>(first.key.cols());
  header.shape.value_dim = static_cast<int>(first.value.cols());
  header.shape.scale = first.scale;
  std::vector<Matrix> query;
  std::vector<Matrix> key;
  std::vector<Matrix> value;
  for (const Unit& head : heads) {
    query.push_back(head.query.front());
    key.push_back(head.key);
    value.push_back(head.value);
  }
  TraceWriter writer(file, header, ElementType::float16);
  writer.begin_sequence(first.name.sequence, first.num_tokens(), 0, "", {});
  writer.write_layer(first.name.layer, query, key, value, {});
  writer.close();
}

Case with_reading(const Case& in_memory, const char* id, const char* title, const Trace& trace) {
  Case reading = in_memory;
  reading.id = id;
  reading.title = title;
  reading.reads_trace = true;
  reading.run = [run = in_memory.run, trace](const Unit& head) {
    return run(trace.read_unit(head.name));
  };
  return reading;
}

}  // namespace kvsim::bench
