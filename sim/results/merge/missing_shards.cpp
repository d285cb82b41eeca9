#include "sim/results/merge/missing_shards.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "sim/base/errors.h"
#include "sim/results/run.h"

namespace kvsim {
namespace {

/// The shards of one command that have a run.
struct Study {
  std::string command;                ///< of one of them, without the shard
  std::map<int, bool> finished = {};  ///< by the shard's index
};

/// Without `--shard 3/16`, or `shard='3/16'` of a call in Python.
std::string without_shard(std::string command, const std::string& shard) {
  for (const std::string& option : {" --shard " + shard, " --shard=" + shard,
                                    ", shard='" + shard + "'", "shard='" + shard + "', "}) {
    const std::size_t found = command.find(option);
    if (found != std::string::npos) command.erase(found, option.size());
  }
  return command;
}

/// "3, 7-9".
std::string listed(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

/// "shard 3", "shards 3, 7-9".
std::string shards(const std::vector<int>& numbers) {
  return fmt::format("shard{} {}", numbers.size() == 1 ? "" : "s", listed(numbers));
}

}  // namespace

std::vector<std::string> missing_shards(SQLite::Database& connection) {
  std::map<std::pair<std::string, int>, Study> studies;
  SQLite::Statement runs(connection,
                         "SELECT study, shard, command, coalesce(finished, 0), "
                         "CAST(substr(shard, 1, instr(shard, '/') - 1) AS INTEGER) AS part, "
                         "CAST(substr(shard, instr(shard, '/') + 1) AS INTEGER) AS parts FROM run "
                         "WHERE study IS NOT NULL AND shard LIKE '%/%' ORDER BY part, run_id");
  while (runs.executeStep()) {
    const int count = runs.getColumn(5).getInt();
    if (count < 1 || count > kMostShards) {
      throw DataError(fmt::format("table run, shard: expected I/N with N from 1 to {}, found '{}'",
                                  kMostShards, runs.getColumn(1).getString()));
    }
    Study& study = studies[{runs.getColumn(0).getString(), count}];
    if (study.command.empty()) {
      study.command = without_shard(runs.getColumn(2).getString(), runs.getColumn(1).getString());
    }
    bool& finished = study.finished[runs.getColumn(4).getInt()];
    finished = finished || runs.getColumn(3).getInt() != 0;
  }
  std::vector<std::string> lines;
  for (const auto& [name, study] : studies) {
    const int count = name.second;
    std::vector<int> missing;
    std::vector<int> begun;
    for (int shard = 1; shard <= count; ++shard) {
      const auto found = study.finished.find(shard);
      if (found == study.finished.end()) missing.push_back(shard);
      if (found != study.finished.end() && !found->second) begun.push_back(shard);
    }
    if (!missing.empty()) {
      lines.push_back(
          fmt::format("missing {} of {} of '{}'", shards(missing), count, study.command));
    }
    if (!begun.empty()) {
      const bool one = begun.size() == 1;
      lines.push_back(fmt::format(
          "{} of {} of '{}' {} not finished: run {} again, then merge again", shards(begun), count,
          study.command, one ? "was" : "were", one ? "it" : "them"));
    }
  }
  return lines;
}

}  // namespace kvsim
