#include "sim/results/schedule_file.h"

#include <fmt/format.h>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/open_hdf5.h"

namespace kvsim {
namespace {

const std::string kHowToWrite = "write it with kvsim replay --per-step for this trace";

void check_steps(const Place& place, const std::vector<std::int32_t>& evicted_after) {
  const auto num_tokens = static_cast<std::int32_t>(evicted_after.size());
  for (std::int32_t token = 0; token < num_tokens; ++token) {
    if (evicted_after[token] < token || evicted_after[token] > num_tokens) {
      place.fail(fmt::format("a step in {}..{}", token, num_tokens),
                 fmt::format("{} at [{}]", evicted_after[token], token), kHowToWrite);
    }
  }
}

void check_budget(const Place& place, const std::vector<std::int32_t>& evicted_after,
                  int first_eviction, int budget) {
  const auto num_tokens = static_cast<int>(evicted_after.size());
  std::vector<int> leaving(num_tokens + 1);
  for (const std::int32_t step : evicted_after) ++leaving[std::max(step, first_eviction)];
  int kept = 0;
  for (int step = 0; step < num_tokens; ++step) {
    kept += 1 - leaving[step];
    if (step >= first_eviction && kept > budget) {
      place.fail(fmt::format("a schedule that keeps at most {} tokens", budget),
                 fmt::format("{} after step {}", kept, step), "give the budget it was made for");
    }
  }
}

}  // namespace

ScheduleFile::ScheduleFile(const std::filesystem::path& file) {
  const Hdf5Lock lock;
  const FileKind kind{.kind = "a per-step file",
                      .make = "kvsim replay --per-step writes one",
                      .repair = "write it again"};
  root_ = std::make_unique<GroupReader>(open_hdf5(file, kind));
}

ScheduleFile::~ScheduleFile() {
  const Hdf5Lock lock;
  root_.reset();
}

std::vector<std::int32_t> ScheduleFile::read(const UnitName& unit, int num_tokens,
                                             int first_eviction, int budget) const {
  const Hdf5Lock lock;
  const GroupReader group = root_->group("sequences", kHowToWrite)
                                .group(unit.sequence, kHowToWrite)
                                .group("layers", kHowToWrite)
                                .group(std::to_string(unit.layer), kHowToWrite)
                                .group("kv_heads", kHowToWrite)
                                .group(std::to_string(unit.kv_head), kHowToWrite);
  const H5::DataSet dataset = group.dataset("evicted_after");
  const Place place = group.place().child("evicted_after");
  if (!is_int32(dataset.getDataType())) {
    place.fail("int32", type_name(dataset.getDataType()), kHowToWrite);
  }
  const std::string expected = fmt::format("[{}]", num_tokens);
  const std::string found = shape_name(dataset.getSpace());
  if (found != expected) place.fail("shape " + expected, found, kHowToWrite);
  std::vector<std::int32_t> evicted_after(num_tokens);
  try {
    dataset.read(evicted_after.data(), H5::PredType::NATIVE_INT32);
  } catch (const H5::Exception& error) {
    place.fail("numbers that can be read", error.getDetailMsg(), "write it again");
  }
  check_steps(place, evicted_after);
  check_budget(place, evicted_after, first_eviction, budget);
  return evicted_after;
}

}  // namespace kvsim
