// Which shard analyses which units.

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "analysis/run_analyses.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::analysis_test::shards_test {

using namespace test_support;
using traces_test::TemporaryFolder;

constexpr int kMostShards = 16;

struct Case {
  std::string what;
  std::string policies;
  std::size_t together;  ///< units that no shard takes apart, of 8
};

/// Of a request for one budget; without policies none.
AnalysisPlan shard_of(const Trace& trace, const Case& wanted, const Shard& shard) {
  SweepRequest part;
  part.open_traces = {trace};
  if (!wanted.policies.empty()) part = request(trace, wanted.policies, {"6"});
  part.shard = shard;
  return plan_analyses(parse_analyses(wanted.what), part, false);
}

TEST_CASE("shards of analyses are units, each once, those together that are replayed together") {
  const TemporaryFolder folder;
  const Case wanted =
      GENERATE(Case{"sparsity", "", 1}, Case{"evictions", "h2o;lru@pyramid", 1},
               Case{"evictions", "h2o;tova:scope=layer", 2}, Case{"residual-similarity", "", 2},
               Case{"fragmentation", "h2o", 2}, Case{"evictions", "spatten", 4},
               Case{"evictions", "h2o@persistence", 4});
  // Residual streams make every layer one that is replayed as a whole.
  const bool has_stream = wanted.what == "residual-similarity";
  write_random_trace(folder / "t.h5", 1, kPrompt, has_stream ? 9 : 0);
  const Trace trace(folder / "t.h5");
  for (int count = 1; count <= kMostShards; ++count) {
    CAPTURE(wanted.what, wanted.policies, count);
    std::multiset<std::string> found;
    std::set<std::string> studies;
    for (int index = 1; index <= count; ++index) {
      const AnalysisPlan shard = shard_of(trace, wanted, {index, count});
      std::map<std::string, std::size_t> groups;
      for (const PlannedUnit& unit : shard.sweep.units) {
        const UnitName& name = unit.unit.name;
        found.insert(name_of(name));
        if (wanted.together == 4) ++groups[name.sequence];
        if (wanted.together == 2) ++groups[fmt::format("{} {}", name.sequence, name.layer)];
      }
      for (const auto& [group, units] : groups) CHECK(units == wanted.together);
      studies.insert(shard.sweep.study);
    }
    CHECK(found.size() == kUnits);
    CHECK(std::set<std::string>(found.begin(), found.end()).size() == kUnits);
    CHECK(studies.size() == 1);
  }
}

TEST_CASE("shards of other analyses, or of other replays, are another study") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  const auto study = [&](const std::string& what, const std::string& policies) {
    return shard_of(trace, {what, policies, 1}, {1, 2}).sweep.study;
  };
  CHECK(study("sparsity", "") == study("sparsity", ""));
  CHECK(study("sparsity", "") != study("sparsity:threshold=0.5", ""));
  CHECK(study("sparsity", "") != study("sparsity,persistence", ""));
  CHECK(study("evictions", "h2o") != study("evictions", "lru"));
}

TEST_CASE("the rows of the shards of an analysis are those of the whole") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  const Case wanted{"sparsity,evictions", "h2o;tova:scope=layer", 2};
  const auto rows_of = [&](const Shard& shard) {
    AnalysisPlan plan = shard_of(trace, wanted, shard);
    const std::atomic<bool> interrupted = false;
    std::multiset<std::vector<Value>> rows;
    run_analyses(plan, *make_cpu_backend(), interrupted,
                 [&](const PlannedUnit&, const std::vector<TableRows>& tables) {
                   for (const TableRows& table : tables) {
                     rows.insert(table.rows.begin(), table.rows.end());
                   }
                 });
    return rows;
  };
  auto parts = rows_of({1, 3});
  for (const int index : {2, 3}) parts.merge(rows_of({index, 3}));
  CHECK(parts == rows_of({}));
}

}  // namespace kvsim::analysis_test::shards_test
