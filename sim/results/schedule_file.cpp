#include "sim/results/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/results/unit_numbers.h"
#include "traces/hdf5/hdf5_lock.h"

namespace kvsim {
namespace {

const std::string kHowToWrite = "write it with kvsim replay --per-step for this trace";

UnitNumbers schedules() {
  return {.kind = {.kind = "a per-step file",
                   .make = "kvsim replay --per-step writes one",
                   .repair = "write it again"},
          .name = "evicted_after",
          .how_to_write = kHowToWrite};
}

void check_steps(const Place& place, const std::vector<std::int32_t>& evicted_after) {
  const auto num_tokens = static_cast<std::int32_t>(evicted_after.size());
  for (std::int32_t token = 0; token < num_tokens; ++token) {
    if (evicted_after[token] < token || evicted_after[token] > num_tokens) {
      place.fail(fmt::format("a step in {}..{}", token, num_tokens),
                 fmt::format("{} at [{}]", evicted_after[token], token), kHowToWrite);
    }
  }
}

void check_limits(const Place& place, const std::vector<std::int32_t>& evicted_after,
                  const ScheduleLimits& limits) {
  const auto num_tokens = static_cast<int>(evicted_after.size());
  std::vector<int> leaving(num_tokens + 1);
  for (const std::int32_t step : evicted_after) ++leaving[std::max(step, limits.first_eviction)];
  int kept = 0;
  for (int step = 0; step < num_tokens; ++step) {
    const int held = kept + 1;
    kept = held - leaving[step];
    if (step < limits.first_eviction) continue;
    // A cache that holds more than it may is cut down to the budget.
    const int may_hold = step == limits.first_eviction ? limits.budget : limits.most_held;
    if (held > may_hold && kept > limits.budget) {
      place.fail(fmt::format("a schedule that keeps at most {} tokens", limits.budget),
                 fmt::format("{} after step {}", kept, step), "give the budget it was made for");
    }
  }
}

/// A page leaves whole, and not before it is complete.
void check_pages(const Place& place, const std::vector<std::int32_t>& evicted_after, int page) {
  const auto num_tokens = static_cast<std::int32_t>(evicted_after.size());
  for (std::int32_t token = 0; token < num_tokens && page > 1; ++token) {
    const std::int32_t first = token / page * page;
    const std::int32_t leaves = evicted_after[token];
    const bool leaves_whole = leaves == evicted_after[first];
    if (leaves_whole && (leaves == num_tokens || leaves >= first + page)) continue;
    place.fail(fmt::format("pages of {} tokens that leave whole, after later tokens", page),
               fmt::format("tokens {} and {} that leave after steps {} and {}", first, token,
                           evicted_after[first], leaves),
               "give a schedule of this page, or leave --page out");
  }
}

}  // namespace

ScheduleFile::ScheduleFile(const std::filesystem::path& file)
    : root_(open_unit_numbers<std::int32_t>(file, schedules())) {}

ScheduleFile::~ScheduleFile() {
  const Hdf5Lock lock;
  root_.reset();
}

void ScheduleFile::require_budget(int budget) const {
  const Hdf5Lock lock;
  root_of(budget);
}

/// The group that holds `sequences`. The caller holds the lock.
GroupReader ScheduleFile::root_of(int budget) const {
  if (!root_->contains("budgets")) return *root_;
  const std::string how = "add it, or ask for one of these";
  const GroupReader budgets = root_->group("budgets", how);
  const std::string name = std::to_string(budget);
  if (budgets.contains(name)) return budgets.group(name, how);
  std::vector<std::string> there = budgets.names();
  std::sort(there.begin(), there.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);  // numbers in their order
  });
  budgets.place().fail(
      fmt::format("schedules for a budget of {} tokens", budget),
      there.empty() ? "none at all" : fmt::format("those for {}", fmt::join(there, ", ")), how);
}

std::vector<std::int32_t> ScheduleFile::read(int budget, const UnitName& unit, int num_tokens,
                                             const ScheduleLimits& limits) const {
  const Hdf5Lock lock;
  const GroupReader root = root_of(budget);
  const UnitNumbers numbers = schedules();
  std::vector<std::int32_t> evicted_after =
      read_unit_numbers<std::int32_t>(root, numbers, unit, num_tokens);
  const Place place = place_of(root, numbers, unit);
  check_steps(place, evicted_after);
  check_limits(place, evicted_after, limits);
  check_pages(place, evicted_after, limits.page);
  return evicted_after;
}

}  // namespace kvsim
