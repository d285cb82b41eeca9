#include "sim/core/schedule_file.h"

#include <fmt/format.h>

#include "traces/hdf5_lock.h"
#include "traces/hdf5_type.h"
#include "traces/open_hdf5.h"

namespace kvsim {
namespace {

const std::string kWriteAgain = "write it with kvsim replay --per-step for this trace";

void check_steps(const Place& place, const std::vector<std::int32_t>& leaves_after) {
  const auto num_tokens = static_cast<std::int32_t>(leaves_after.size());
  for (std::int32_t token = 0; token < num_tokens; ++token) {
    if (leaves_after[token] < token || leaves_after[token] > num_tokens) {
      place.fail(fmt::format("a step in {}..{}", token, num_tokens),
                 fmt::format("{} at [{}]", leaves_after[token], token), kWriteAgain);
    }
  }
}

void check_budget(const Place& place, const std::vector<std::int32_t>& leaves_after,
                  int first_eviction, int budget) {
  const auto num_tokens = static_cast<int>(leaves_after.size());
  std::vector<int> leaving(num_tokens + 1);
  for (const std::int32_t step : leaves_after) ++leaving[std::max(step, first_eviction)];
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
  const GroupReader group = root_->group("sequences", kWriteAgain)
                                .group(unit.sequence, kWriteAgain)
                                .group("layers", kWriteAgain)
                                .group(std::to_string(unit.layer), kWriteAgain)
                                .group("kv_heads", kWriteAgain)
                                .group(std::to_string(unit.kv_head), kWriteAgain);
  const H5::DataSet dataset = group.dataset("evicted_after");
  const Place place = group.place().child("evicted_after");
  if (!is_int32(dataset.getDataType())) {
    place.fail("int32", type_name(dataset.getDataType()), kWriteAgain);
  }
  const std::string expected = fmt::format("[{}]", num_tokens);
  const std::string found = shape_name(dataset.getSpace());
  if (found != expected) place.fail("shape " + expected, found, kWriteAgain);
  std::vector<std::int32_t> leaves_after(num_tokens);
  try {
    dataset.read(leaves_after.data(), H5::PredType::NATIVE_INT32);
  } catch (const H5::Exception& error) {
    place.fail("numbers that can be read", error.getDetailMsg(), "write it again");
  }
  check_steps(place, leaves_after);
  check_budget(place, leaves_after, first_eviction, budget);
  return leaves_after;
}

}  // namespace kvsim
