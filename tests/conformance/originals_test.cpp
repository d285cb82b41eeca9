// What the programs of others keep of the sample trace, against what the policies keep that stand
// for them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <iterator>

#include "policies/registry/spec.h"
#include "sim/sweep/run_sweep.h"
#include "tests/conformance/golden_sets.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace_writer.h"

namespace kvsim::conformance::originals_test {

const std::filesystem::path kSample = KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5";

/// The sample trace with a KV head for each query head, for programs that cannot share one.
void write_without_groups(const std::filesystem::path& file) {
  const Trace sample(kSample);
  TraceHeader header = sample.header();
  header.shape.num_kv_heads = header.shape.num_query_heads;
  TraceWriter writer(file, header, ElementType::float16);
  for (const SequenceInfo& sequence : sample.sequences()) {
    const auto unit = [&](int layer, int head) {
      return sample.read_unit({sequence.name, layer, head});
    };
    writer.begin_sequence(sequence.name, sequence.num_tokens, sequence.prompt_length,
                          sequence.source, unit(0, 0).token_ids);
    for (const LayerInfo& layer : sequence.layers) {
      std::vector<Matrix> query, key, value;
      for (const int kv_head : layer.kv_heads) {
        const Unit shared = unit(layer.index, kv_head);
        for (const Matrix& head : shared.query) {
          query.push_back(head);
          key.push_back(shared.key);
          value.push_back(shared.value);
        }
      }
      writer.write_layer(layer.index, query, key, value, {});
    }
  }
  writer.close();
}

using Position = std::tuple<std::string, int, int>;

Position position_of(const UnitName& name) { return {name.sequence, name.layer, name.kv_head}; }

/// When each token left, by unit.
std::map<Position, std::vector<std::int32_t>> replay_of(const GoldenCase& golden,
                                                        const std::filesystem::path& trace) {
  SweepRequest request;
  request.traces = {trace};
  request.policies = {Spec(golden.policy)};
  request.budgets = {Amount::parse(std::to_string(golden.budget), "budget")};
  request.protocol.mode = golden.mode;
  request.protocol.eviction_interval = golden.eviction_interval;
  request.trajectories = true;
  for (const GoldenUnit& unit : golden.units) {
    request.selection.sequences.push_back(unit.name.sequence);
    request.selection.layers.push_back(unit.name.layer);
    request.selection.kv_heads.push_back(unit.name.kv_head);
  }
  const std::atomic<bool> interrupted = false;
  std::map<Position, std::vector<std::int32_t>> left;
  run_sweep(plan_sweep(request), *make_cpu_backend(), interrupted,
            [&](const PlannedUnit& planned, const std::vector<Outcome>& outcomes) {
              left[position_of(planned.unit.name)] = outcomes.front().trajectory.evicted_after;
            });
  return left;
}

Tokens without(const Tokens& tokens, const Tokens& others) {
  Tokens rest;
  std::set_difference(tokens.begin(), tokens.end(), others.begin(), others.end(),
                      std::back_inserter(rest));
  return rest;
}

struct Agreement {
  int equal = 0;
  int sets = 0;
  std::string first_difference;

  double share() const { return static_cast<double>(equal) / sets; }
};

Agreement compare(const GoldenCase& golden, const std::filesystem::path& trace) {
  const auto left = replay_of(golden, trace);
  Agreement agreement;
  for (const GoldenUnit& unit : golden.units) {
    for (const auto& [step, expected] : unit.kept) {
      const Tokens kept = kept_after(left.at(position_of(unit.name)), step);
      ++agreement.sets;
      agreement.equal += kept == expected;
      if (kept == expected || !agreement.first_difference.empty()) continue;
      agreement.first_difference = fmt::format(
          "{} layer {} head {} after step {}: {} kept, {} expected; only here {}, only there {}",
          unit.name.sequence, unit.name.layer, unit.name.kv_head, step, kept.size(),
          expected.size(), without(kept, expected), without(expected, kept));
    }
  }
  return agreement;
}

TEST_CASE("a policy keeps what the original program keeps, or the stated share of it") {
  const traces_test::TemporaryFolder folder;
  write_without_groups(folder / "query-heads.h5");
  REQUIRE(golden_files().size() >= 12);
  for (const auto& file : golden_files()) {
    for (const GoldenCase& golden : read_golden_sets(file).cases) {
      const Agreement found =
          compare(golden, golden.query_heads ? folder / "query-heads.h5" : kSample);
      CAPTURE(file.filename().string(), golden.name, golden.policy, golden.cause);
      CAPTURE(found.equal, found.sets, found.first_difference);
      REQUIRE(found.sets > 0);
      if (golden.share == 1) CHECK(found.equal == found.sets);
      CHECK(found.share() == Approx(golden.share).margin(0.01));
      CHECK((golden.share < 1) == !golden.cause.empty());
    }
  }
}

}  // namespace kvsim::conformance::originals_test
