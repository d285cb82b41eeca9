#include <catch2/catch.hpp>

#include "traces/trace.h"

namespace kvsim::traces_test::sample_test {

TEST_CASE("the sample trace opens and holds what its README says") {
  const Trace trace(KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5");
  const TraceHeader& header = trace.header();
  CHECK(header.model == "tiny-llama 0.75M");
  CHECK(header.num_layers == 4);
  CHECK(header.shape.num_query_heads == 8);
  CHECK(header.shape.num_kv_heads == 4);
  CHECK(header.shape.head_dim == 16);
  CHECK(header.shape.value_dim == 16);
  CHECK(header.shape.scale == 0.25);
  REQUIRE(header.shape.rope.has_value());
  CHECK(header.shape.rope->style == "half");
  CHECK(header.shape.rope->inverse_frequency.size() == 8);

  REQUIRE(trace.sequences().size() == 2);
  CHECK(trace.sequences()[0].name == "copied-segment");
  CHECK(trace.sequences()[1].name == "held-out-text");
  CHECK(trace.sequences()[1].source == "WikiText-2 test, article Operation Eastern Exit");
  for (const SequenceInfo& sequence : trace.sequences()) {
    CHECK(sequence.num_tokens == 512);
    CHECK(sequence.prompt_length == 384);
    CHECK(sequence.has_token_ids);
    CHECK(sequence.has_token_text);
    REQUIRE(sequence.layers.size() == 4);
    for (const LayerInfo& layer : sequence.layers) {
      CHECK(layer.kv_heads == std::vector<int>{0, 1, 2, 3});
      CHECK(layer.has_output);
      CHECK(layer.key_bytes == 2);
    }
  }
}

TEST_CASE("the trace of the demo opens and holds what its README says") {
  const Trace trace(KVSIM_SOURCE_DIR "/traces/sample/smollm2.h5");
  const TraceHeader& header = trace.header();
  CHECK(header.model == "SmolLM2-135M-Instruct.Q4_1");
  CHECK(header.num_layers == 30);
  CHECK(header.shape.num_query_heads == 9);
  CHECK(header.shape.head_dim == 64);
  CHECK(header.shape.rope.has_value());
  REQUIRE(trace.sequences().size() == 1);
  const SequenceInfo& sequence = trace.sequences()[0];
  CHECK(sequence.name == "facts-0");
  CHECK(sequence.num_tokens == 1011);
  CHECK(sequence.has_token_text);
  REQUIRE(sequence.layers.size() == 3);
  for (const LayerInfo& layer : sequence.layers) {
    CHECK(layer.kv_heads == std::vector<int>{0, 1, 2});
    CHECK_FALSE(layer.has_output);
    CHECK(layer.key_bytes == 2);
  }
}

TEST_CASE("the trace of the toy model that finds facts holds what its README says") {
  const Trace trace(KVSIM_SOURCE_DIR "/traces/sample/tiny-retriever.h5");
  CHECK(trace.header().model == "tiny-retriever");
  CHECK(trace.header().num_layers == 4);
  REQUIRE(trace.header().shape.rope.has_value());
  REQUIRE(trace.sequences().size() == 2);
  CHECK(trace.sequences()[0].name == "eight-facts-1");
  CHECK(trace.sequences()[1].name == "eight-facts-2");
  for (const SequenceInfo& sequence : trace.sequences()) {
    CHECK(sequence.num_tokens == 640);
    CHECK(sequence.prompt_length == 480);
    CHECK(sequence.has_token_text);
    REQUIRE(sequence.layers.size() == 4);
    for (const LayerInfo& layer : sequence.layers) {
      CHECK(layer.kv_heads == std::vector<int>{0, 1, 2, 3});
      CHECK(layer.has_output);
      CHECK(layer.key_bytes == 2);
    }
  }
}

}  // namespace kvsim::traces_test::sample_test
