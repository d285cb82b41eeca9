#include "traces/synth/synth.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/attention.h"
#include "traces/sha256.h"

namespace kvsim::traces_test::synth_test {

/// One head with no structure at all: each test adds what it is about.
SynthOptions bare() {
  SynthOptions options;
  options.tokens = 512;
  options.layers = options.query_heads = options.kv_heads = 1;
  options.elements = ElementType::float32;
  options.output = false;
  options.sink_strength = options.local_strength = options.heavy_strength = 0;
  options.retrieval_share = options.noise = 0;
  return options;
}

Unit synthetic_unit(const SynthOptions& options, int kv_head = 0, int layer = 0) {
  const TemporaryFolder folder;
  synthesize(folder / "t.h5", options);
  return Trace(folder / "t.h5").read_unit({"synthetic", layer, kv_head});
}

double mean_logit_at_lag(const Eigen::MatrixXd& logit, int lag) {
  return logit.diagonal(-lag).mean();
}

/// Hill's estimate of the exponent of a power-law tail, from the `tail` greatest values.
double hill_exponent(std::vector<double> logarithms, std::size_t tail) {
  std::sort(logarithms.begin(), logarithms.end(), std::greater<>());
  const double sum = std::accumulate(logarithms.begin(), logarithms.begin() + tail, 0.0);
  return 1 / (sum / static_cast<double>(tail) - logarithms[tail]);
}

std::vector<double> last_logits(const Unit& unit) {
  const Eigen::VectorXf last = unit.scale * (unit.key * unit.query[0].bottomRows(1).transpose());
  return {last.begin(), last.end()};
}

TEST_CASE("without structure every token is attended alike") {
  CHECK(logits(synthetic_unit(bare()), 0).cwiseAbs().maxCoeff() < 1e-6);
}

TEST_CASE("sinks take the mass that their strength says") {
  SynthOptions options = bare();
  options.sinks = 3;
  double before = 0;
  for (const double strength : {0.0, 2.0, 5.0}) {
    options.sink_strength = strength;
    const Eigen::MatrixXd weight = attention(synthetic_unit(options), 0);
    const double mass = weight.row(511).head(3).sum();
    const double expected = 3 * std::exp(strength) / (3 * std::exp(strength) + 509);
    CHECK(mass == Approx(expected).epsilon(1e-4));
    CHECK(mass > before);
    before = mass;
  }
}

TEST_CASE("the local band decays with distance") {
  SynthOptions options = bare();
  options.local_strength = 3;
  options.local_decay = 0.8;
  const Eigen::MatrixXd logit = logits(synthetic_unit(options), 0);
  CHECK(mean_logit_at_lag(logit, 0) == Approx(3).margin(1e-4));
  CHECK(mean_logit_at_lag(logit, 1) == Approx(3 * 0.8).margin(0.1));
  CHECK(mean_logit_at_lag(logit, 4) == Approx(3 * std::pow(0.8, 4)).margin(0.2));
  CHECK(mean_logit_at_lag(logit, 100) == Approx(0).margin(0.2));
}

TEST_CASE("heavy hitters follow the stated power law") {
  SynthOptions options = bare();
  options.tokens = 4096;
  options.heavy_strength = 1;
  for (const double exponent : {1.5, 3.0}) {
    options.heavy_exponent = exponent;
    // The estimate from 1000 values is normal with a deviation of exponent / sqrt(1000).
    CHECK(hill_exponent(last_logits(synthetic_unit(options)), 1000) ==
          Approx(exponent).margin(3 * exponent / std::sqrt(1000)));
  }
  options.heavy_strength = 2;
  CHECK(hill_exponent(last_logits(synthetic_unit(options)), 1000) ==
        Approx(1.5).margin(4.5 / std::sqrt(1000)));
}

TEST_CASE("drift moves the mass to newer hitters") {
  SynthOptions options = bare();
  options.heavy_strength = 2;
  const auto newest_quarter = [&](double drift) {
    options.drift = drift;
    return attention(synthetic_unit(options), 0).row(511).tail(128).sum();
  };
  const double steady = newest_quarter(0);
  const double drifting = newest_quarter(std::numbers::pi);
  CHECK(steady < 0.45);
  CHECK(drifting > steady + 0.2);
}

TEST_CASE("retrieval heads attend to what followed the last occurrence") {
  SynthOptions options = bare();
  options.query_heads = 4;
  options.retrieval_share = 0.5;
  options.retrieval_period = 200;
  const Unit unit = synthetic_unit(options);
  for (int head = 0; head < 4; ++head) {
    INFO("query head " << head);
    const Eigen::MatrixXd weight = attention(unit, head);
    const double mass = weight.diagonal(-199).tail(200).mean();
    if (head < 2) CHECK(mass > 0.3);
    if (head >= 2) CHECK(mass < 0.01);
  }
  // All but the first key, which has no token before it.
  CHECK(logits(unit, 0).diagonal(-199).tail(312).mean() == Approx(8).margin(1e-4));
}

TEST_CASE("the text repeats with the period, in distinct tokens") {
  const TemporaryFolder folder;
  SynthOptions options = bare();
  options.retrieval_period = 200;
  synthesize(folder / "t.h5", options);
  std::vector<std::int32_t> ids(512);
  edit(folder / "t.h5")
      .openDataSet("/sequences/synthetic/token_ids")
      .read(ids.data(), H5::PredType::NATIVE_INT32);
  for (std::size_t token = 200; token < ids.size(); ++token) CHECK(ids[token] == ids[token - 200]);
  ids.resize(200);
  CHECK_FALSE(std::is_sorted(ids.begin(), ids.end()));
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

TEST_CASE("noise has the stated deviation") {
  SynthOptions options = bare();
  options.noise = 0.7;
  const Eigen::MatrixXd logit = logits(synthetic_unit(options), 0);
  CHECK(logit.mean() == Approx(0).margin(0.05));
  CHECK(std::sqrt(logit.cwiseAbs2().mean()) == Approx(0.7).margin(0.05));
}

TEST_CASE("query heads of a group differ, and so do KV heads and layers") {
  SynthOptions options = bare();
  options.tokens = 40;
  options.query_heads = 4;
  options.kv_heads = options.layers = 2;
  options.local_strength = options.noise = 1;
  const Unit unit = synthetic_unit(options);
  CHECK(unit.query[0] != unit.query[1]);
  CHECK(unit.key != synthetic_unit(options, 1).key);
  CHECK(unit.value != synthetic_unit(options, 1).value);
  CHECK(unit.key != synthetic_unit(options, 0, 1).key);
}

TEST_CASE("changing one component leaves the others as they were") {
  SynthOptions options = bare();
  options.local_strength = 3;
  const Eigen::MatrixXd before = logits(synthetic_unit(options), 0);
  options.sink_strength = 4;
  const Eigen::MatrixXd change = logits(synthetic_unit(options), 0) - before;
  CHECK((change.leftCols(4).array() - 4).abs().maxCoeff() < 1e-4);
  CHECK(change.rightCols(508).cwiseAbs().maxCoeff() < 1e-4);
}

TEST_CASE("the recorded output is the attention of the recorded numbers") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 60;
  options.value_dim = 5;
  options.layers = 1;
  options.elements = GENERATE(ElementType::float16, ElementType::float32);
  if (GENERATE(false, true)) options.sink_logit = 2;
  options.attention_chunk = GENERATE(0, 17);
  const double epsilon = options.elements == ElementType::float16 ? 0x1p-10 : 0x1p-22;
  synthesize(folder / "t.h5", options);
  const Trace trace(folder / "t.h5");
  for (int kv_head = 0; kv_head < 2; ++kv_head) {
    const Unit unit = trace.read_unit({"synthetic", 0, kv_head});
    const std::vector<Matrix> output = trace.read_output(unit.name);
    for (int member = 0; member < 2; ++member) {
      const Eigen::MatrixXd expected = attention(unit, member) * unit.value.cast<double>();
      CHECK((output[member].cast<double>() - expected).cwiseAbs().maxCoeff() <
            epsilon * expected.cwiseAbs().maxCoeff());
    }
  }
}

TEST_CASE("planted sinks spread around their mean and leave the vectors as they were") {
  SynthOptions options;
  options.tokens = 8;
  options.layers = 5;
  options.query_heads = 400;
  options.head_dim = 2;
  const Trace bare = synthesize(options);
  options.sink_logit = -1.5;
  options.attention_chunk = 3;
  const Trace trace = synthesize(options);
  double sum = 0;
  double squares = 0;
  for (int layer = 0; layer < 5; ++layer) {
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      const Unit unit = trace.read_unit({"synthetic", layer, kv_head});
      CHECK(unit.key == bare.read_unit({"synthetic", layer, kv_head}).key);
      CHECK(unit.query == bare.read_unit({"synthetic", layer, kv_head}).query);
      CHECK(unit.attention_chunk == (layer == 3 ? std::nullopt : std::optional(3)));
      REQUIRE(unit.sink_logit.size() == 200);
      for (const float sink : unit.sink_logit) {
        sum += sink;
        squares += (sink + 1.5) * (sink + 1.5);
      }
    }
  }
  CHECK(sum / 2000 == Approx(-1.5).margin(0.07));
  CHECK(squares / 2000 == Approx(1).margin(0.1));
  CHECK(trace.id() != bare.id());
}

TEST_CASE("the same options give the same file, another seed another") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 50;
  synthesize(folder / "one.h5", options);
  synthesize(folder / "two.h5", options);
  CHECK(sha256_of_file(folder / "one.h5") == sha256_of_file(folder / "two.h5"));
  options.seed = 1;
  synthesize(folder / "two.h5", options);
  CHECK(Trace(folder / "one.h5").id() != Trace(folder / "two.h5").id());
}

TEST_CASE("the number of threads changes no byte, and progress only rises") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 300;
  options.query_heads = 10;
  options.kv_heads = 5;
  options.sink_logit = 1;
  synthesize(folder / "one.h5", options);
  for (const int threads : {2, 3, 8}) {
    options.threads = threads;
    double before = 0;
    synthesize(folder / "more.h5", options, [&](double share) {
      CHECK(share >= before);
      before = share;
    });
    CHECK(before <= 1);
    CHECK(sha256_of_file(folder / "more.h5") == sha256_of_file(folder / "one.h5"));
  }
}

TEST_CASE("the smallest shapes work") {
  SynthOptions options;
  options.elements = GENERATE(ElementType::float16, ElementType::float32);
  options.tokens = GENERATE(1, 2, 9);
  options.head_dim = GENERATE(1, 2, 3, 5, 6, 7);
  options.value_dim = 1;
  options.query_heads = 3;
  options.kv_heads = 1;
  options.prompt_length = options.tokens;
  const Unit unit = synthetic_unit(options, 0, 1);
  CHECK(unit.num_tokens() == options.tokens);
  CHECK(unit.key.cols() == options.head_dim);
  CHECK(unit.value.cols() == 1);
  CHECK(unit.group_size() == 3);
  CHECK(unit.prompt_length == options.tokens);
}

}  // namespace kvsim::traces_test::synth_test
