#include <catch2/catch.hpp>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/synth/synth.h"

namespace kvsim::traces_test::beside_attention_test {

using H5::PredType;

struct FullTrace {
  FullTrace() { write_full_trace(file); }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "t.h5";
};

TEST_CASE("a unit has its heads' part of what is recorded in addition to attention") {
  const FullTrace full;
  const Trace trace(full.file);
  for (int kv_head = 0; kv_head < 2; ++kv_head) {
    const Unit unit = trace.read_unit({"a", 0, kv_head});
    REQUIRE(unit.output_projection.size() == 2);
    REQUIRE(unit.output_score_grad.size() == 2);
    for (int member = 0; member < 2; ++member) {
      const int head = 2 * kv_head + member;
      CHECK(unit.output_projection[member] == numbered_projection().middleRows(3 * head, 3));
      for (int sample = 0; sample < 2; ++sample) {
        CHECK(unit.output_score_grad[sample][member] == numbered_gradients()[sample][head]);
      }
    }
    REQUIRE(unit.residual_square.size() == kSmallTokens);
    for (int token = 0; token < kSmallTokens; ++token) {
      CHECK(unit.residual_square[token] ==
            Approx(numbered_residual().row(token).squaredNorm()).epsilon(1e-6));
    }
    const std::vector<float> sinks = numbered_sinks();
    CHECK(unit.sink_logit == std::vector<float>(&sinks[2 * kv_head], &sinks[2 * kv_head] + 2));
    CHECK(unit.sink(1) == sinks[2 * kv_head + 1]);
    CHECK(unit.attention_chunk == 2);
    CHECK(unit.spans == std::vector<Span>{{1, 3, "needle"}});
    CHECK(unit.weighs_outputs());
  }
}

TEST_CASE("a layer lists what is recorded of it in addition to attention") {
  const FullTrace full;
  const std::vector<LayerInfo> layers = Trace(full.file).sequences().front().layers;
  CHECK(layers[0].hidden == kHidden);
  CHECK(layers[0].has(Dataset::residual));
  CHECK(layers[0].has(Dataset::sink_logit));
  CHECK(layers[0].attention_chunk == 2);
  CHECK(layers[0].width(Dataset::mlp_activation) == 9);
  CHECK(layers[0].gradient_samples == 2);
  CHECK(layers[0].gradient_bytes == 2);
  CHECK(layers[1].hidden == 0);
  CHECK(layers[1].recorded.size() == 1);  // the outputs
  CHECK_FALSE(layers[1].attention_chunk.has_value());
  CHECK(layers[1].gradient_samples == 0);
}

TEST_CASE("what is not recorded or not asked for is empty") {
  const FullTrace full;
  const Trace trace(full.file);
  const Unit bare = trace.read_unit({"a", 1, 0});
  CHECK_FALSE(bare.weighs_outputs());
  CHECK(bare.residual_square.empty());
  CHECK(bare.sink_logit.empty());
  CHECK(bare.sink(0) == -std::numeric_limits<float>::infinity());
  const Unit unread = trace.read_unit({"a", 0, 0}, {.gradients = false, .projection = false});
  CHECK_FALSE(unread.weighs_outputs());
  CHECK(unread.residual_square.empty());
}

TEST_CASE("units of other layers do not get each other's residual stream") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 8;
  options.layers = 20;
  options.hidden = 4;
  const Trace trace = synthesize(options);
  std::vector<std::vector<double>> first;
  for (int layer = 0; layer < options.layers; ++layer) {
    first.push_back(trace.read_unit({"synthetic", layer, 0}).residual_square);
    if (layer > 0) CHECK(first[layer] != first[layer - 1]);
  }
  for (int layer = 0; layer < options.layers; ++layer) {
    CHECK(trace.read_unit({"synthetic", layer, 1}).residual_square == first[layer]);
  }
}

/// Replaces the sink logits.
void write_sinks(const H5::H5File& file, const H5::DataType& type,
                 const std::vector<float>& sinks) {
  const std::string path = kLayer + "/sink_logit";
  file.unlink(path);
  const hsize_t heads = sinks.size();
  file.createDataSet(path, type, H5::DataSpace(1, &heads))
      .write(sinks.data(), PredType::NATIVE_FLOAT);
}

/// Replaces the gradients by some of which only these (sample, head) are written.
void write_some_gradients(const H5::H5File& file,
                          const std::vector<std::pair<hsize_t, hsize_t>>& written) {
  H5::DSetCreatPropList properties;
  const hsize_t chunk[] = {1, 1, kSmallTokens, 3};
  properties.setChunk(4, chunk);
  const H5::DataSet dataset =
      set_dataset(file, kGradient, PredType::IEEE_F32LE, {2, 4, kSmallTokens, 3}, properties);
  const double scale = 0.5;
  dataset.createAttribute("scale", PredType::NATIVE_DOUBLE, H5::DataSpace())
      .write(PredType::NATIVE_DOUBLE, &scale);
  const int seed = 0;
  dataset.createAttribute("label_seed", PredType::NATIVE_INT, H5::DataSpace())
      .write(PredType::NATIVE_INT, &seed);
  const std::vector<float> numbers(kSmallTokens * 3, 3.0f);
  for (const auto& [sample, head] : written) {
    const H5::DataSpace space = dataset.getSpace();
    const hsize_t start[] = {sample, head, 0, 0};
    space.selectHyperslab(H5S_SELECT_SET, chunk, start);
    dataset.write(numbers.data(), PredType::NATIVE_FLOAT, H5::DataSpace(4, chunk), space);
  }
}

TEST_CASE("gradients of some heads serve their units, and the layer has none") {
  const FullTrace full;
  write_some_gradients(edit(full.file), {{0, 2}, {1, 2}, {0, 3}, {1, 3}, {0, 0}, {1, 0}});
  seal_again(full.file);
  const Trace trace(full.file);
  CHECK(trace.sequences().front().layers.front().gradient_samples == 0);
  CHECK(trace.read_unit({"a", 0, 0}).output_score_grad.empty());
  const Unit unit = trace.read_unit({"a", 0, 1});
  REQUIRE(unit.output_score_grad.size() == 2);
  CHECK(unit.output_score_grad[1][0] == Matrix::Constant(kSmallTokens, 3, 1.5f));
}

TEST_CASE("a head whose gradients lack a sample is an error") {
  const FullTrace full;
  write_some_gradients(edit(full.file), {{0, 0}, {1, 0}, {0, 1}});
  CHECK_THAT(error_of_reading(full.file),
             Catch::EndsWith("/output_score_grad: expected all samples of query head 1 or none, "
                             "found 1 of 2; record the layer again"));
}

TEST_CASE("what was never written of a whole layer is not there") {
  const FullTrace full;
  set_dataset(edit(full.file), kProjection, PredType::IEEE_F32LE, {12, kHidden});
  set_dataset(edit(full.file), kLayer + "/residual", PredType::IEEE_F32LE, {kSmallTokens, kHidden});
  set_dataset(edit(full.file), kActivation, PredType::IEEE_F32LE, {kSmallTokens, 9});
  seal_again(full.file);
  const LayerInfo layer = Trace(full.file).sequences().front().layers.front();
  CHECK(layer.hidden == 0);
  CHECK_FALSE(layer.has(Dataset::residual));
  CHECK(layer.width(Dataset::mlp_activation) == 0);
  CHECK(layer.gradient_samples == 2);
}

TEST_CASE("gradients use the range of float16 whatever their size") {
  for (const double largest : {1e-30, 3e-9, 1.0, 8192.0, 1e20}) {
    const double stored = largest / gradient_scale(static_cast<float>(largest));
    CHECK(stored >= 8192);
    CHECK(stored < 16384);
  }
  CHECK(gradient_scale(0) == 1);
}

TEST_CASE("gradients of any size keep their digits in float16") {
  const float factor = GENERATE(1e-12f, 1.0f, 1e6f);
  const TemporaryFolder folder;
  const TraceHeader header = small_header();
  TraceWriter writer(folder / "t.h5", header, ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  const LayerNumbers numbers = numbered_layer(header, kSmallTokens, 0);
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
  std::vector<std::vector<Matrix>> gradients = numbered_gradients();
  for (std::vector<Matrix>& heads : gradients) {
    for (Matrix& head : heads) head *= factor;
  }
  writer.write_gradients(gradients, 0);
  writer.close();
  const Unit unit = Trace(folder / "t.h5").read_unit({"a", 0, 1});
  for (int sample = 0; sample < 2; ++sample) {
    for (int member = 0; member < 2; ++member) {
      const Matrix& expected = gradients[sample][2 + member];
      CHECK((unit.output_score_grad[sample][member] - expected).cwiseAbs().maxCoeff() <=
            0x1p-11 * expected.cwiseAbs().maxCoeff());
    }
  }
}

TEST_CASE("the trace_id covers what is recorded in addition to attention") {
  SynthOptions options;
  options.tokens = 16;
  const std::string bare = synthesize(options).id();
  options.gradient_samples = 1;
  const std::string with_gradients = synthesize(options).id();
  options.hidden = 8;
  const std::string with_both = synthesize(options).id();
  CHECK(bare != with_gradients);
  CHECK(with_gradients != with_both);
  options.mlp_width = 8;
  CHECK(synthesize(options).id() != with_both);
}

TEST_CASE("planted projection and gradients are the seed's and leave attention as it was") {
  SynthOptions options;
  options.tokens = 16;
  const Unit bare = synthesize(options).read_unit({"synthetic", 1, 1});
  options.hidden = 8;
  options.gradient_samples = 3;
  const Unit unit = synthesize(options).read_unit({"synthetic", 1, 1});
  const Unit again = synthesize(options).read_unit({"synthetic", 1, 1});
  CHECK(unit.key == bare.key);
  CHECK(unit.query == bare.query);
  CHECK(unit.output_projection == again.output_projection);
  CHECK(unit.output_score_grad == again.output_score_grad);
  REQUIRE(unit.output_score_grad.size() == 3);
  CHECK(unit.output_score_grad[0] != unit.output_score_grad[1]);
  CHECK(unit.output_projection[0] != unit.output_projection[1]);
  options.seed = 1;
  CHECK(synthesize(options).read_unit({"synthetic", 1, 1}).output_score_grad !=
        unit.output_score_grad);
}

TEST_CASE("sink logits may be float16 in a file, and the trace_id covers them") {
  const FullTrace full;
  const std::string id = Trace(full.file).id();
  const float half = 0.5F;
  write_sinks(edit(full.file), half_type(), {-1, half, 3, 2});
  seal_again(full.file);
  CHECK(Trace(full.file).read_unit({"a", 0, 1}).sink_logit == std::vector<float>{3, 2});

  const TraceHeader header = small_header();
  const LayerNumbers numbers = numbered_layer(header, kSmallTokens, 0);
  const auto id_of = [&](const std::vector<float>& sinks) {
    TraceWriter writer(header, ElementType::float16);
    writer.begin_sequence("a", kSmallTokens, 0, "", {});
    writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
    if (!sinks.empty()) writer.write_sink_logit(sinks);
    return writer.open().id();
  };
  CHECK(id_of({}) != id_of({1, 2, 3, 4}));
  CHECK(id_of({1, 2, 3, 5}) != id_of({1, 2, 3, 4}));
}

TEST_CASE("the writer takes what fits the header and the sequence") {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(writer.write_rows(Dataset::residual, numbered_residual()),
                    Contains("no layer was written"));
  CHECK_THROWS_WITH(writer.write_rows(Dataset::mlp_activation, numbered_activation()),
                    Contains("mlp_activation: no layer was written"));
  CHECK_THROWS_WITH(writer.write_gradients(numbered_gradients(), 0),
                    Contains("no layer was written"));
  CHECK_THROWS_WITH(writer.write_sink_logit(numbered_sinks()), Contains("no layer was written"));
  CHECK_THROWS_WITH(writer.write_projection(2, numbered_projection()),
                    Contains("expected a layer in 0..1, found 2"));
  CHECK_THROWS_WITH(writer.write_projection(0, numbered_residual()),
                    Contains("expected [12, hidden]"));
}

}  // namespace kvsim::traces_test::beside_attention_test
