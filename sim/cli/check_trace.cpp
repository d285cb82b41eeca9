#include "sim/cli/check_trace.h"

#include <fmt/format.h>

#include <iostream>

#include "sim/base/printable.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/session.h"
#include "sim/replay/replay.h"
#include "sim/results/table.h"
#include "traces/integrity/check_trace.h"

namespace kvsim::cli {
namespace {

Table table_of(const Trace& trace, const std::string& verdict) {
  Table table{{"sequence", "tokens", "layers", "KV heads", "verdict"}, {}};
  for (const SequenceInfo& sequence : trace.sequences()) {
    std::size_t heads = 0;
    for (const LayerInfo& layer : sequence.layers) heads += layer.kv_heads.size();
    table.rows.push_back({sequence.name, std::int64_t{sequence.num_tokens},
                          static_cast<std::int64_t>(sequence.layers.size()),
                          static_cast<std::int64_t>(heads), verdict});
  }
  return table;
}

}  // namespace

int check_trace_file(const std::string& file) {
  const Trace trace(file);
  const std::atomic<bool>& is_interrupted = catch_interrupts();
  const auto between = [&] {
    if (is_interrupted) throw Interrupted(fmt::format("interrupted; {} is as it was", file));
  };
  if (trace.header().version < 2) {
    read_every_unit(trace, between);
    write_aligned(std::cout, table_of(trace, "no digests; finite"));
    std::cout << fmt::format(
        "{}: trace of version 1, which has no digests: its structure is sound and its numbers are "
        "finite, but damage would go unnoticed; kvsim convert makes it version 2\n",
        printable(file));
    return 0;
  }
  const TraceCheck checked = check_trace(trace, between);
  write_aligned(std::cout, table_of(trace, "agrees"));
  std::cout << fmt::format(
      "{}: trace of version {}: its manifest, and {} heads and lists of {}, agree with their "
      "digests\n",
      printable(file), checked.version, checked.heads,
      counted(static_cast<std::size_t>(checked.datasets), "dataset"));
  return 0;
}

}  // namespace kvsim::cli
