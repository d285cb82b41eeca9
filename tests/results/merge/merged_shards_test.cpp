// The files of a command's shards, merged, against the file of the whole command.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "analysis/run_analyses.h"
#include "sim/results/merge/merge.h"
#include "sim/sweep/curve_table.h"
#include "sim/sweep/run_curves.h"
#include "sim/sweep/stored_sweep.h"
#include "tests/support/nightly.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/unsynced_files.h"

namespace kvsim::merged_shards_test {

using namespace test_support;
using traces_test::TemporaryFolder;
using Access = ResultStore::Access;

constexpr int kMostShards = 16;
constexpr const char* kOfAllScopes =
    "window;mine=h2o;tova:scope=layer;spatten;optimal;certificate;lru@persistence";
const std::vector<std::string> kTables{
    "replay", "certificate", "layer_error", "regret",  "predicted_kl", "sampled_interval",
    "curve",  "sparsity",    "evictions",   "overlap", "unit",         "about"};
const std::atomic<bool> kGoOn = false;

void sweep_into(ResultStore& store, SweepRequest request) {
  SweepPlan plan = plan_sweep(std::move(request));
  begin_sweep(plan, store, labels_of(plan, "kvsim sweep", "cpu"), false);
  run_sweep(plan, *make_cpu_backend(), kGoOn,
            [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
              store_unit(outcomes, store);
            });
  store.finish_run();
}

void curve_into(ResultStore& store, SweepRequest request) {
  request.policies = parse_specs("window;optimal");
  const CurvePlan plan = plan_curves(std::move(request), ErrorBudgets("none", "--output-error"));
  store.create(curve_schema());
  store.begin_run(labels_of(plan.sweep, "kvsim curve", "cpu"));
  run_curves(plan, *make_cpu_backend(), kGoOn,
             [&](const PlannedUnit&, const std::vector<Curve>&,
                 const std::vector<TableRows>& tables) { store.replace(tables); });
  store.finish_run();
}

void analyze_into(ResultStore& store, SweepRequest request) {
  request.policies = parse_specs("h2o;tova:scope=layer");
  AnalysisPlan plan = plan_analyses(parse_analyses("sparsity,evictions,overlap"), request, false);
  for (const TableSchema& schema : plan.schemas) store.create(schema);
  store.begin_run(labels_of(plan.sweep, "kvsim analyze", "cpu"));
  run_analyses(
      plan, *make_cpu_backend(), kGoOn,
      [&](const PlannedUnit&, const std::vector<TableRows>& tables) { store.replace(tables); });
  store.finish_run();
}

/// All that writes to result files, each the same shard.
void write_part(const std::filesystem::path& file, SweepRequest request, const Shard& shard) {
  request.shard = shard;
  ResultStore store(file, Access::write);
  sweep_into(store, request);
  curve_into(store, request);
  analyze_into(store, request);
  request.protocol.reference = Reference::sample;
  request.protocol.samples = 4;
  request.policies = parse_specs("window;lfu");
  sweep_into(store, request);
}

/// What `kvsim export --without run_id,trace` prints of each table.
std::map<std::string, std::string> exported(const std::filesystem::path& file) {
  const ResultStore store(file, Access::read);
  std::map<std::string, std::string> texts;
  for (const std::string& name : kTables) {
    Table table = store.table(name);
    for (const char* column : {"run_id", "trace"}) {
      const auto found = std::find(table.columns.begin(), table.columns.end(), column);
      if (found == table.columns.end()) continue;
      const auto place = found - table.columns.begin();
      table.columns.erase(found);
      for (std::vector<Value>& row : table.rows) row.erase(row.begin() + place);
    }
    std::ostringstream text;
    write_csv(text, table);
    CHECK(table.rows.size() > 1);
    texts[name] = text.str();
  }
  return texts;
}

TEST_CASE(
    "merged shards export what the whole command does, byte for byte, whatever their number") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1, kPrompt, 9);
  const SweepRequest wanted = request(Trace(folder / "t.h5"), kOfAllScopes, {"6"});
  write_part(folder / "one.sqlite", wanted, {});
  const auto whole = exported(folder / "one.sqlite");
  std::mt19937 order(1);
  std::vector<int> every(kMostShards);
  std::iota(every.begin(), every.end(), 1);
  const std::vector<int> some = sample_of<std::vector<int>>({1, 2, 5, kMostShards}, every);
  for (const int count : is_watched() ? std::vector{1, 5} : some) {
    CAPTURE(count);
    std::vector<std::filesystem::path> parts;
    for (int index = 1; index <= count; ++index) {
      parts.push_back(folder / fmt::format("{}-{}.sqlite", count, index));
      write_part(parts.back(), wanted, {index, count});
    }
    std::shuffle(parts.begin(), parts.end(), order);
    const std::filesystem::path all = folder / fmt::format("{}.sqlite", count);
    const Merged merged = merge_results(parts, all);
    CHECK(merged.parts == parts.size());
    CHECK(merged.missing == std::vector<std::string>{});
    const auto found = exported(all);
    for (const std::string& table : kTables) {
      CAPTURE(table);
      CHECK(found.at(table) == whole.at(table));
    }
  }
}

TEST_CASE("a shard that began again after a merge is merged into what is there") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window;lru", {"6"});
  const auto run_shard = [&](int index, bool to_the_end) {
    SweepRequest request = wanted;
    request.shard = {index, 2};
    SweepPlan plan = plan_sweep(std::move(request));
    ResultStore store(folder / fmt::format("{}.sqlite", index), Access::write);
    begin_sweep(plan, store, labels_of(plan, "kvsim sweep t.h5", "cpu"), false);
    std::size_t units = 0;
    run_sweep(plan, *make_cpu_backend(), kGoOn,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                if (to_the_end || units++ == 0) store_unit(outcomes, store);
              });
    if (to_the_end) store.finish_run();
  };
  run_shard(1, true);
  run_shard(2, false);
  const std::vector<std::filesystem::path> parts{folder / "2.sqlite", folder / "1.sqlite"};
  const std::filesystem::path all = folder / "all.sqlite";
  CHECK(merge_results(parts, all).missing ==
        std::vector<std::string>{"shard 2 of 2 of 'kvsim sweep t.h5' was not finished: run it "
                                 "again, then merge again"});
  run_shard(2, true);
  CHECK(merge_results({folder / "2.sqlite"}, all).missing == std::vector<std::string>{});
  CHECK(ResultStore(all, Access::read).table("replay").rows.size() == 2 * kUnits);
}

}  // namespace kvsim::merged_shards_test
