#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "python/engine/bindings.h"
#include "python/engine/run_engine.h"
#include "python/engine/scratch.h"
#include "sim/replay/replay.h"
#include "sim/results/merge/merge.h"
#include "sim/sweep/shards/shard.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// ([(table, rows, new rows)], notes of what is missing).
nb::tuple merge(const std::vector<std::filesystem::path>& parts,
                const std::filesystem::path& output, const nb::object& progress,
                const std::string& scratch) {
  Merged merged;
  run_engine(progress, [&](Work& state) {
    state.total = parts.size();
    const MergeProgress tell = [&](std::size_t done) {
      state.done = done;
      if (state.interrupted) throw Interrupted("interrupted");
    };
    merged = merge_results(parts, output, tell, scratch_in(scratch));
  });
  nb::list tables;
  for (const MergedTable& each : merged.tables) {
    tables.append(nb::make_tuple(each.name, each.rows, each.added));
  }
  return nb::make_tuple(tables, merged.missing);
}

}  // namespace

void bind_shards(nb::module_& module) {
  module.def(
      "parse_shard",
      [](const std::string& text) {
        const Shard shard = parse_shard(text);
        return std::pair(shard.index, shard.count);
      },
      "text"_a);
  module.def("partition", &partition, "costs"_a, "count"_a);
  module.def("merge", &merge, "parts"_a, "output"_a, "progress"_a.none(), "scratch"_a = "");
}

}  // namespace kvsim::python
