#include <algorithm>
#include <catch2/catch.hpp>

#include "gpu/device_backend.h"
#include "tests/gpu/devices.h"
#include "tests/support/compare.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::gpu_test::device_sweep_test {

using test_support::request;
using test_support::write_random_trace;
using traces_test::TemporaryFolder;

std::vector<Result> rows_of(const SweepRequest& wanted, const Backend& backend) {
  const std::atomic<bool> interrupted = false;
  std::vector<Result> rows;
  run_sweep(plan_sweep(wanted), backend, interrupted,
            [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
              for (const Outcome& outcome : outcomes) rows.push_back(outcome.result);
            });
  return rows;
}

std::string device_of(const std::vector<Result>& rows, const std::string& policy) {
  std::string devices;
  for (const Result& row : rows) {
    if (row.policy.starts_with(policy) && devices != row.device) devices += row.device;
  }
  return devices;
}

// Rows of the same replays agree, whatever their order.
void check_rows(const std::vector<Result>& rows, const std::vector<Result>& expected) {
  REQUIRE(rows.size() == expected.size());
  for (const Result& row : rows) {
    const auto same = std::find_if(expected.begin(), expected.end(), [&](const Result& other) {
      return other.sequence == row.sequence && other.layer == row.layer &&
             other.kv_head == row.kv_head && other.policy == row.policy &&
             other.budget == row.budget;
    });
    REQUIRE(same != expected.end());
    INFO(row.policy << " at " << row.budget);
    CHECK(test_support::differences(row, *same, 1e-4) == "");
  }
}

TEST_CASE("device: a sweep has the CPU's rows, and each names the device that made it") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted =
      request(folder / "t.h5", "window;subgen;h2o;tova:scope=layer;snapkv;belady", {"20%", "7"});
  wanted.threads = GENERATE(1, 3);
  const std::vector<Result> expected = rows_of(wanted, *make_cpu_backend());
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name);
    const std::vector<Result> rows = rows_of(wanted, *device.backend());
    check_rows(rows, expected);
    for (const std::string policy : {"window", "h2o", "snapkv"}) {
      CHECK(device_of(rows, policy) == device.name);
    }
    for (const std::string policy : {"subgen", "tova", "belady"}) {
      CHECK(device_of(rows, policy) == "cpu");
    }
  }
}

TEST_CASE("device: budgets that an allocation splits are those of each unit") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const SweepRequest wanted = request(folder / "t.h5", "h2o@pyramid", {"40%"});
  const std::vector<Result> expected = rows_of(wanted, *make_cpu_backend());
  for (const TestedDevice& device : tested_devices()) {
    const std::vector<Result> rows = rows_of(wanted, *device.backend());
    REQUIRE(rows.size() == expected.size());
    CHECK(device_of(rows, "h2o") == device.name);
    std::int64_t peaks = 0;
    for (const Result& row : rows) peaks += row.peak_tokens;
    for (const Result& row : expected) peaks -= row.peak_tokens;
    CHECK(peaks == 0);
  }
}

TEST_CASE("device: a plan knows which of its policies the CPU replays") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "window;strided:h2=0.5;full", {"7"});
  const auto device = tested_devices().front().backend();
  CHECK(policies_on_cpu(plan_sweep(wanted), *device) ==
        std::vector<std::string>{"full", Spec("strided:h2=0.5").text()});
  CHECK(policies_on_cpu(plan_sweep(wanted), *make_cpu_backend()).empty());
  wanted.protocol.reference = Reference::none;
  wanted.policies = parse_specs("window");
  CHECK(policies_on_cpu(plan_sweep(wanted), *device) == std::vector<std::string>{"window"});
}

}  // namespace kvsim::gpu_test::device_sweep_test
