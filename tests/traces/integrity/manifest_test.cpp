#include "traces/integrity/manifest.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/full_trace.h"
#include "traces/datasets.h"
#include "traces/hdf5/digest.h"
#include "traces/sha256.h"
#include "traces/trace.h"

namespace kvsim::traces_test::manifest_test {

using namespace std::string_literals;

std::string manifest_of(const Trace& trace) {
  std::string manifest;
  trace.with_root([&](const GroupReader& root) { manifest = make_manifest(root); });
  return manifest;
}

std::string digest_of(const std::string& bytes) {
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  return digest_name(digest.value());
}

struct Changes {
  double scale = 0.5;
  std::optional<double> softcap;
  std::optional<int> window;
  std::optional<int> chunk;
  int tokens = 1;
  int prompt = 0;
  std::string model = "m";
  std::string source = "s";
  ElementType elements = ElementType::float16;
};

/// A trace of one layer with one head, whose numbers are few enough to write down.
Trace tiny_trace(const Changes& changes) {
  TraceHeader header = small_header();
  header.num_layers = header.shape.num_query_heads = header.shape.num_kv_heads = 1;
  header.shape.head_dim = 2;
  header.shape.value_dim = 1;
  header.shape.rope.reset();
  header.model = changes.model;
  header.shape.scale = changes.scale;
  header.logit_softcap = changes.softcap;
  TraceWriter writer(header, changes.elements);
  writer.begin_sequence("a", changes.tokens, changes.prompt, changes.source, {});
  Matrix rows(changes.tokens, 2);
  rows.rowwise() = Eigen::RowVector2f(1, 2);
  writer.write_layer(0, {rows}, {2 * rows}, {Matrix::Constant(changes.tokens, 1, -0.5f)}, {},
                     {.sliding_window = changes.window, .attention_chunk = changes.chunk});
  return writer.open();
}

TEST_CASE("a manifest lists attributes, shapes, types and digests in sorted JSON") {
  const Trace trace = tiny_trace({.window = 3});
  const auto listed = [](const std::string& dim, const std::string& bytes) {
    return R"({"digests":[")" + digest_of(bytes) + R"("],"shape":[1,1,)" + dim +
           R"(],"type":"float16"})";
  };
  CHECK(manifest_of(trace) ==
        R"({"head_dim":2,"kvtrace_version":2,"num_kv_heads":1,"num_layers":1,"num_query_heads":1,)"
        R"("scale":0.5,"sequences":{"a":{"layers":{"0":{"key":)" +
            listed("2", "\x00\x40\x00\x44"s) + R"(,"query":)" + listed("2", "\x00\x3c\x00\x40"s) +
            R"(,"sliding_window":3,"value":)" + listed("1", "\x00\xb8"s) +
            R"(}},"num_tokens":1,"prompt_length":0}},"value_dim":1})");
}

TEST_CASE("the trace_id is the SHA-256 of the manifest") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  const Trace trace(folder / "t.h5");
  CHECK(trace.id() == sha256(manifest_of(trace)));
  CHECK(trace.header().version == 2);
}

TEST_CASE("traces that differ in what a replay reads have different ids") {
  const std::string id = tiny_trace({}).id();
  CHECK(tiny_trace({}).id() == id);
  CHECK(tiny_trace({.scale = 0.25}).id() != id);
  CHECK(tiny_trace({.softcap = 30}).id() != id);
  CHECK(tiny_trace({.window = 2}).id() != id);
  CHECK(tiny_trace({.chunk = 2}).id() != id);
  CHECK(tiny_trace({.tokens = 2}).id() != id);
  CHECK(tiny_trace({.prompt = 1}).id() != id);
  CHECK(tiny_trace({.elements = ElementType::float32}).id() != id);
}

TEST_CASE("the trace_id leaves out what only describes") {
  const std::string id = tiny_trace({}).id();
  CHECK(tiny_trace({.model = "another"}).id() == id);
  CHECK(tiny_trace({.source = "another"}).id() == id);
}

TEST_CASE("a manifest lists every dataset of the format") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  const auto listed = nlohmann::json::parse(manifest_of(Trace(folder / "t.h5")));
  const auto& layer = listed.at("sequences").at("a").at("layers").at("0");
  for (const DatasetInfo& info : datasets()) {
    if (info.level == Level::layer) CHECK(layer.contains(info.name));
  }
  CHECK(layer.at("attention_chunk") == 2);
  CHECK(layer.at("output_score_grad").at("digests").size() == 8);
  CHECK(layer.at("output_score_grad").at("label_seed") == 7);
  CHECK(listed.at("sequences").at("a").at("spans").size() == 4);
  CHECK(listed.at("model").at("layers").at("0").contains("output_projection"));
  CHECK(listed.at("rope").at("inv_freq").at("type") == "float64");
}

}  // namespace kvsim::traces_test::manifest_test
