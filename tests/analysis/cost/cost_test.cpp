#include "analysis/cost/cost.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kvsim::cost_test {

template <class Entry>
const Entry& named(std::span<const Entry> table, const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Entry& e) { return e.name == name; });
  REQUIRE(found != table.end());
  return *found;
}

Deployment deployment(const std::string& model, const std::string& device = "a100", int count = 1) {
  return {
      .model = named(model_shapes(), model), .device = named(devices(), device), .devices = count};
}

double table_1_cache(const std::string& model) {  // of batch 128, 2,048 tokens
  return kv_bytes_per_token(named(model_shapes(), model)) * 128 * 2048;
}

// Counts weights, embeddings tied or not, and what every layer has in addition to its matrices.
std::int64_t opt_parameters(const ModelShape& model) {
  const std::int64_t d = std::int64_t{model.query_heads} * model.head_dim;
  return (50272 + 2050) * d + model.layers * (12 * d * d + 13 * d) + 2 * d;
}

std::int64_t llama_parameters(const ModelShape& model, std::int64_t words, std::int64_t ffn) {
  const std::int64_t d = std::int64_t{model.query_heads} * model.head_dim;
  const std::int64_t kv = std::int64_t{model.kv_heads} * model.head_dim;
  return 2 * words * d + model.layers * (2 * d * d + 2 * d * kv + 3 * d * ffn + 2 * d) + d;
}

TEST_CASE("parameter counts follow from the architectures") {
  for (const ModelShape& model : model_shapes()) {
    INFO(model.name);
    if (model.name.starts_with("opt-")) CHECK(model.parameters == opt_parameters(model));
    CHECK(model.query_heads % model.kv_heads == 0);
  }
  const auto llama = [](const char* name, std::int64_t words, std::int64_t ffn) {
    const ModelShape& model = named(model_shapes(), name);
    INFO(name);
    CHECK(model.parameters == llama_parameters(model, words, ffn));
  };
  llama("llama-7b", 32000, 11008);
  llama("llama-13b", 32000, 13824);
  llama("llama-65b", 32000, 22016);
  llama("llama-2-70b", 32000, 28672);
  llama("llama-3-8b", 128256, 14336);
  llama("llama-3-70b", 128256, 28672);
  llama("mistral-7b", 32000, 14336);
}

TEST_CASE("Scissorhands Table 1: two of three cache sizes are as printed, in GiB") {
  CHECK(table_1_cache("opt-175b") == 1152 * kGiB);
  CHECK(table_1_cache("llama-65b") == 640 * kGiB);
  // Printed: 950. Layers and hidden size, printed next to it, give 3.2% more; no unit gives 950.
  CHECK(table_1_cache("bloom-176b") == 980 * kGiB);
  CHECK(980 / 950.0 == Approx(1.032).margin(5e-4));
  CHECK(table_1_cache("bloom-176b") == Approx(1052.3e9).epsilon(1e-4));
}

TEST_CASE("Scissorhands Table 1: weights are printed in GiB once and in GB twice, rounded down") {
  CHECK(std::floor(weight_bytes(deployment("opt-175b")) / kGiB) == 325);
  CHECK(std::floor(weight_bytes(deployment("llama-65b")) / 1e9) == 130);
  CHECK(std::floor(weight_bytes(deployment("bloom-176b")) / 1e9) == 352);
}

TEST_CASE("Scissorhands Table 2: the largest batch on eight A100s of 80 GB") {
  CHECK(largest_batch(deployment("opt-175b", "a100", 8), 2048) == 34);
  CHECK(largest_batch(deployment("llama-65b", "a100", 8), 2048) == 102);
  // Printed: 36. That takes Table 1's 352, which are GB, for GiB.
  Deployment bloom = deployment("bloom-176b", "a100", 8);
  CHECK(largest_batch(bloom, 2048) == 39);
  bloom.weight_bytes = 352 * kGiB;
  CHECK(largest_batch(bloom, 2048) == 36);
}

TEST_CASE("a cache shrinks with grouped queries and with the bits of an element") {
  CHECK(kv_bytes_per_token(named(model_shapes(), "llama-2-7b")) == 512 * 1024);
  CHECK(kv_bytes_per_token(named(model_shapes(), "llama-3-8b")) == 128 * 1024);
  CHECK(kv_bytes_per_token(named(model_shapes(), "llama-3-8b"), 4) == 32 * 1024);
}

TEST_CASE("the batch is limited where weights and cache lie") {
  Deployment at = deployment("opt-30b", "t4");
  CHECK(largest_batch(at, 1024) == 0);  // 55.8 GiB of weights
  at.offloaded_weights = 1;
  const double sequence = 1024 * kv_bytes_per_token(at.model);
  CHECK(largest_batch(at, 1024) == std::floor(at.device.memory / sequence));
  at.offloaded_cache = 1;
  CHECK(largest_batch(at, 1024) == std::nullopt);
  at.host_memory = 208e9;
  CHECK(largest_batch(at, 1024) == std::floor((208e9 - weight_bytes(at)) / sequence));
  at.offloaded_cache = 0.75;
  CHECK(largest_batch(at, 1024) == std::floor(at.device.memory / (0.25 * sequence)));
}

TEST_CASE("a step takes as long as the slowest of compute, memory and link") {
  // One layer of one head of size 2; a token is 8 bytes of cache and 8 FLOPs of attention.
  const ModelShape model{"tiny", 1, 1, 1, 2, 100};
  const Device device{"round", 1e9, 10, 50, 2};
  Deployment at{.model = model, .device = device};
  Busy step = decode_step(at, 3, 5);
  CHECK(step.compute == Approx(3 * (200 + 8 * 5) / 50.0));
  CHECK(step.memory == Approx((200 + 3 * 5 * 8) / 10.0));
  CHECK(step.link == 0);
  CHECK(step.seconds() == step.memory);
  CHECK(bound_name(step.bound()) == "memory");

  at.offloaded_weights = 0.5;
  at.offloaded_cache = 0.25;
  step = decode_step(at, 3, 5);
  CHECK(step.memory == Approx((100 + 90) / 10.0));
  CHECK(step.link == Approx((100 + 30) / 2.0));
  CHECK(bound_name(step.bound()) == "link");

  at.devices = 4;
  CHECK(decode_step(at, 3, 5).seconds() == Approx(step.seconds() / 4));
  CHECK(bound_name(decode_step({.model = model, .device = device}, 100, 1).bound()) == "compute");
}

TEST_CASE("a prompt attends in full, keeps its budget and yields the first token") {
  const Deployment at{.model = {"tiny", 1, 1, 1, 2, 100}, .device = {"round", 1e9, 10, 50, 2}};
  const Workload work{.batch = 3, .prompt = 4, .generate = 3, .budget = 2};
  const Busy prompt = prefill(at, work);
  CHECK(prompt.compute == Approx(3 * (4 * 200 + 8 * (1 + 2 + 3 + 4)) / 50.0));
  CHECK(prompt.memory == Approx((200 + 3 * 2 * 8) / 10.0));
  const CostEstimate time = estimate(at, work);
  CHECK(time.prompt_seconds == prompt.seconds());
  CHECK(time.decode_seconds == Approx(2 * decode_step(at, 3, 2).seconds()));
  CHECK(time.tokens_per_second == Approx(9 / (time.prompt_seconds + time.decode_seconds)));
  CHECK(estimate(at, {.batch = 3, .prompt = 4, .generate = 3, .budget = 9}).decode_seconds ==
        Approx(decode_step(at, 3, 5).seconds() + decode_step(at, 3, 6).seconds()));
}

// H2O's tables: throughput of H2O (20%) against that of FlexGen. Batch sizes are the printed ones;
// where weights and cache lie is what the authors' h2o_suite.py asks for, and "20%" is there 19 to
// 20% of prompt + generation. Every peak is the data sheet's, for both systems.
struct SpeedUp {
  const char* where;
  const char* model;
  const char* device;
  int prompt;
  int generate;
  std::int64_t full_batch;
  std::int64_t h2o_batch;
  double printed;        // speed-up
  double factor;         // computed / printed
  bool offload = false;  // FlexGen: 80% of the weights, H2O all of them, both the whole cache
  double h2o_weight_bits = 16;
};

double speed_up(const SpeedUp& column) {
  const int tokens = column.prompt + column.generate;
  Workload work{column.full_batch, column.prompt, column.generate, tokens};
  Deployment at = deployment(column.model, column.device);
  if (column.offload) {
    at.offloaded_weights = 0.8;
    at.offloaded_cache = 1;
  }
  const double full = estimate(at, work).tokens_per_second;
  if (column.offload) at.offloaded_weights = 1;
  at.weight_bits = column.h2o_weight_bits;
  work.batch = column.h2o_batch;
  work.budget = tokens / 5;
  return estimate(at, work).tokens_per_second / full;
}

void check(const std::vector<SpeedUp>& columns, double least, double most) {
  for (const SpeedUp& column : columns) {
    const double factor = speed_up(column) / column.printed;
    INFO(column.where << ": computed " << speed_up(column) << ", printed " << column.printed);
    CHECK(factor == Approx(column.factor).epsilon(0.01));
    CHECK((factor > least && factor < most));
  }
}

TEST_CASE("H2O Tables 3 and 5 without offloading: speed-ups within a factor of 1.33") {
  check({{"Table 3, 512+32", "opt-6.7b", "t4", 512, 32, 2, 4, 35.1 / 20.2, 1.03},
         {"Table 3, 512+512", "opt-6.7b", "t4", 512, 512, 1, 4, 51.7 / 16.8, 1.28},
         {"Table 3, 512+1024", "opt-6.7b", "t4", 512, 1024, 1, 4, 52.1 / 16.9, 1.28},
         {"Table 5, 7000+1024", "opt-30b", "a100", 7000, 1024, 1, 1, 57.0 / 50.4, 0.99},
         {"Table 5, 5000+5000", "opt-13b", "a100", 5000, 5000, 4, 4, 214.2 / 155.4, 1.12},
         {"Table 5, batch 24", "opt-6.7b", "a100", 2048, 2048, 24, 24, 918.9 / 494.1, 1.13},
         {"Table 5, batch 64", "opt-6.7b", "a100", 2048, 2048, 24, 64, 1161.0 / 494.1, 1.32}},
        1 / 1.33, 1.33);
}

TEST_CASE("H2O Tables 3 and 4 with offloading: speed-ups too high by less than a factor of 2") {
  check({{"Table 3, 512+32", "opt-30b", "t4", 512, 32, 144, 728, 12.7 / 8.1, 1.75, true},
         {"Table 3, 512+512", "opt-30b", "t4", 512, 512, 80, 416, 18.83 / 8.5, 1.72, true},
         {"Table 3, 512+1024", "opt-30b", "t4", 512, 1024, 48, 264, 13.82 / 7.1, 1.89, true},
         // The lengths of XSUM are not printed: OPT's 2,048 tokens, 64 of them generated.
         {"Table 4", "opt-30b", "t4", 1984, 64, 44, 180, 6.70 / 3.29, 1.55, true}},
        1.5, 2);
}

TEST_CASE("H2O Tables 4 and 7: what a roofline does not explain") {
  // A speed-up of 2.8 at the same batch of one sequence, whose cache is a twelfth of the weights.
  check({{"Table 4", "opt-6.7b", "t4", 1984, 64, 1, 1, 30.40 / 10.80, 0.374}}, 0.3, 0.5);
  // Weights of 4.5 bits: a roofline has no quantisation overhead, of which section C.2 warns.
  check({{"H2O-c, 512+32", "opt-6.7b", "t4", 512, 32, 2, 70, 50.5 / 20.2, 2.67, false, 4.5},
         {"H2O-c, 512+512", "opt-6.7b", "t4", 512, 512, 1, 52, 72.5 / 16.8, 13.0, false, 4.5},
         {"H2O-c, 512+1024", "opt-6.7b", "t4", 512, 1024, 1, 44, 62.3 / 16.9, 13.5, false, 4.5}},
        2.5, 14);
}

TEST_CASE(
    "the authors' prompt times come out within 3% at the rate that FlexGen measured on a T4") {
  Deployment at = deployment("opt-30b", "t4");
  at.offloaded_weights = at.offloaded_cache = 1;
  at.device.flops = 21.24e12;  // mm_flops_p of FlexGen's cost model; the data sheet says 65e12
  const auto seconds = [&](std::int64_t batch, int generate) {
    return prefill(at, {batch, 512, generate, (512 + generate) / 5}).seconds();
  };
  // From the logs in h2o_flexgen/benchmark/h2o/t4 of the authors' repository.
  CHECK(seconds(728, 32) == Approx(1052.874).epsilon(0.03));
  CHECK(seconds(416, 512) == Approx(609.548).epsilon(0.03));
  CHECK(seconds(264, 1024) == Approx(394.668).epsilon(0.03));
}

}  // namespace kvsim::cost_test
