#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/sanitized.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace.h"

namespace kvsim::traces_test::round_trip_test {

void check_header(const TraceHeader& found, const TraceHeader& written) {
  CHECK(found.model == written.model);
  CHECK(found.num_layers == written.num_layers);
  CHECK(found.shape.num_query_heads == written.shape.num_query_heads);
  CHECK(found.shape.num_kv_heads == written.shape.num_kv_heads);
  CHECK(found.shape.head_dim == written.shape.head_dim);
  CHECK(found.shape.value_dim == written.shape.value_dim);
  CHECK(found.shape.scale == written.shape.scale);
  CHECK(found.logit_softcap == written.logit_softcap);
  CHECK(found.recorder == written.recorder);
  REQUIRE(found.shape.rope.has_value() == written.shape.rope.has_value());
  if (!written.shape.rope) return;
  CHECK(found.shape.rope->inverse_frequency == written.shape.rope->inverse_frequency);
  CHECK(found.shape.rope->style == written.shape.rope->style);
  CHECK(found.shape.rope->attention_factor == written.shape.rope->attention_factor);
}

TEST_CASE("a header comes back as it was written") {
  const TemporaryFolder folder;
  TraceHeader header = small_header();
  SECTION("with everything") {
    header.logit_softcap = 30;
    header.shape.rope->style = "interleaved";
    header.shape.rope->attention_factor = 1.25;
  }
  SECTION("with nothing optional") {
    header.recorder.clear();
    header.shape.rope.reset();
  }
  write_small_trace(folder / "t.h5", header);
  check_header(Trace(folder / "t.h5").header(), header);
}

TEST_CASE("a trace says what it holds") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  const Trace trace(folder / "t.h5");
  CHECK(trace.file() == folder / "t.h5");
  REQUIRE(trace.sequences().size() == 1);
  const SequenceInfo& sequence = trace.sequences().front();
  CHECK(sequence.name == "a");
  CHECK(sequence.num_tokens == kSmallTokens);
  CHECK(sequence.prompt_length == 2);
  CHECK(sequence.source == "a source");
  CHECK(sequence.has_token_ids);
  CHECK_FALSE(sequence.has_token_text);
  REQUIRE(sequence.layers.size() == 2);
  CHECK(sequence.layers[0].kv_heads == std::vector<int>{0, 1});
  CHECK_FALSE(sequence.layers[0].sliding_window.has_value());
  CHECK(sequence.layers[1].sliding_window == 3);
  CHECK(sequence.layers[1].has_output);
}

TEST_CASE("a unit is its KV head and the query heads that share it") {
  const TemporaryFolder folder;
  const auto [elements, bytes] =
      GENERATE(std::pair{ElementType::float16, 2}, std::pair{ElementType::float32, 4});
  TraceHeader header = small_header();
  header.logit_softcap = 20;
  write_small_trace(folder / "t.h5", header, elements);
  const Trace trace(folder / "t.h5");
  CHECK(trace.header().dtype == (bytes == 2 ? "float16" : "float32"));
  for (int layer = 0; layer < header.num_layers; ++layer) {
    const LayerNumbers numbers = numbered_layer(header, kSmallTokens, layer);
    for (int head = 0; head < header.shape.num_kv_heads; ++head) {
      const Unit unit = trace.read_unit({"a", layer, head});
      CHECK(unit.name.sequence == "a");
      CHECK(unit.name.layer == layer);
      CHECK(unit.name.kv_head == head);
      CHECK(unit.prompt_length == 2);
      CHECK(unit.scale == 0.5f);
      CHECK(unit.logit_softcap == 20.0f);
      CHECK(unit.sliding_window.has_value() == (layer == 1));
      CHECK(unit.key_bytes == bytes);
      CHECK(unit.value_bytes == bytes);
      CHECK(unit.num_tokens() == kSmallTokens);
      REQUIRE(unit.group_size() == 2);
      CHECK(unit.key == numbers.key[head]);
      CHECK(unit.value == numbers.value[head]);
      const std::vector<Matrix> output = trace.read_output(unit.name);
      REQUIRE(output.size() == 2);
      for (int member = 0; member < 2; ++member) {
        CHECK(unit.query[member] == numbers.query[2 * head + member]);
        CHECK(output[member] == numbers.output[2 * head + member]);
      }
    }
  }
}

TEST_CASE("a head comes back whole, however many tokens it has") {
  const TemporaryFolder folder;
  TraceHeader header = small_header();
  header.shape.num_query_heads = header.shape.num_kv_heads = 1;
  constexpr int kManyTokens = 9000;
  const auto elements = GENERATE(ElementType::float16, ElementType::float32);
  const auto numbers = [&](int dim, int offset) {
    return std::vector<Matrix>{
        Matrix::NullaryExpr(kManyTokens, dim, [&](Eigen::Index row, Eigen::Index col) {
          return static_cast<float>((row * 7 + col * 3 + offset) % 2039);
        })};
  };
  TraceWriter writer(folder / "t.h5", header, elements);
  writer.begin_sequence("a", kManyTokens, 0, "", {});
  writer.write_layer(0, numbers(4, 0), numbers(4, 1), numbers(3, 2), {});
  writer.close();
  const Unit unit = Trace(folder / "t.h5").read_unit({"a", 0, 0});
  CHECK(unit.query == numbers(4, 0));
  CHECK(unit.key == numbers(4, 1)[0]);
  CHECK(unit.value == numbers(3, 2)[0]);
}

TEST_CASE("float16 rounds to the nearest number") {
  const TemporaryFolder folder;
  const TraceHeader header = small_header();
  LayerNumbers numbers = numbered_layer(header, kSmallTokens, 0);
  numbers.key[1](4, 3) = 1 / 3.0f;
  numbers.key[1](4, 2) = -1e-6f;
  TraceWriter writer(folder / "t.h5", header, ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
  writer.close();
  const Unit unit = Trace(folder / "t.h5").read_unit({"a", 0, 1});
  CHECK(unit.key(4, 3) == 0.333251953125f);
  CHECK(unit.key(4, 2) == -0x1.1p-20f);
}

TEST_CASE("several threads may read, from several traces") {
  const TemporaryFolder folder;
  const TraceHeader header = small_header();
  write_small_trace(folder / "one.h5", header);
  write_small_trace(folder / "two.h5", header, ElementType::float32);
  const Trace one(folder / "one.h5"), two(folder / "two.h5");
  const Matrix key = numbered_layer(header, kSmallTokens, 1).key[1];
  // Opening forks. The allocator of clang 14's address sanitizer keeps in the child the locks that
  // other threads had, as libc's does not: the child would wait for them for ever.
  const bool opens = !test_support::has_address_sanitizer();
  std::vector<int> right(4);
  std::vector<std::thread> threads;
  threads.reserve(right.size());
  for (int& count : right) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        count += one.read_unit({"a", 1, 1}).key == key;
        count += two.read_unit({"a", 1, 1}).key == key;
        count += opens && Trace(folder / "one.h5").id() == two.id() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 60));
}

TEST_CASE("a trace can be moved") {
  const TemporaryFolder folder;
  write_small_trace(folder / "t.h5", small_header());
  Trace first(folder / "t.h5");
  Trace second = std::move(first);
  CHECK(second.read_unit({"a", 0, 0}).num_tokens() == kSmallTokens);
  second = Trace(folder / "t.h5");
  CHECK(second.sequences().size() == 1);
}

}  // namespace kvsim::traces_test::round_trip_test
