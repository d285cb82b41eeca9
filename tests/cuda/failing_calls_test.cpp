#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <set>

#include "gpu/cuda/cuda_backend.h"
#include "gpu/kernels/kernels.h"
#include "sim/attention/device_summaries.h"
#include "tests/cuda/stub/stub.h"
#include "tests/support/compare.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/units.h"

namespace kvsim::cuda_test::failing_calls_test {

using cuda_stub::Live;
using traces_test::TemporaryFolder;

// For some units of the sweep below at a time.
const cuda_stub::Settings kLittleMemory{.device_bytes = 300000};

/// What came of work in which one call failed.
struct Attempt {
  std::string failed_call;  ///< empty: the work made fewer calls
  std::string error;        ///< empty: it went on nevertheless
};

// Every call of the work but those that make the back-end fails once. Afterwards nothing is left.
template <class Work, class Check>
std::set<std::string> fail_each_call(cudaError_t error, const cuda_stub::Settings& settings,
                                     Work work, Check check) {
  std::set<std::string> failed;
  Attempt attempt;
  for (int nth = 0; nth == 0 || !attempt.failed_call.empty(); ++nth) {
    cuda_stub::set_up(settings);
    attempt = {};
    {
      const auto backend = make_cuda_backend();
      cuda_stub::fail_call(nth, error);
      try {
        work(*backend);
      } catch (const std::exception& failure) {
        attempt.error = failure.what();
      }
    }
    attempt.failed_call = cuda_stub::failed_call();
    CAPTURE(nth, attempt.failed_call, attempt.error);
    CHECK(cuda_stub::live() == Live{});
    CHECK(cuda_stub::misuses().empty());
    cudaGetLastError();  // which a failed release leaves
    check(attempt);
    failed.insert(attempt.failed_call);
  }
  failed.erase("");
  return failed;
}

const std::set<std::string> kReleases = {"cublasDestroy", "cudaFree", "cudaFreeHost",
                                         "cudaStreamDestroy"};

// A launch is named after its kernel.
bool names(const std::string& error, const std::string& call) {
  if (call != "cudaLaunchKernel") return error.find(call) != std::string::npos;
  const std::vector<std::string> kernels = {
#define KERNEL(name, thread_blocks) #name,
      KVSIM_KERNELS(KERNEL)
#undef KERNEL
  };
  return std::any_of(kernels.begin(), kernels.end(), [&](const std::string& kernel) {
    return error.find(kernel + ": ") != std::string::npos;
  });
}

const std::set<std::string> kCallsOfReplays = {"cublasCreate",
                                               "cublasDestroy",
                                               "cublasSetMathMode",
                                               "cublasSetStream",
                                               "cublasSgemmStridedBatched",
                                               "cudaDeviceGetAttribute",
                                               "cudaFree",
                                               "cudaFuncGetAttributes",
                                               "cudaFuncSetAttribute",
                                               "cudaGetDevice",
                                               "cudaLaunchKernel",
                                               "cudaMalloc",
                                               "cudaMemGetInfo",
                                               "cudaMemcpyAsync",
                                               "cudaStreamCreateWithFlags",
                                               "cudaStreamDestroy",
                                               "cudaStreamSynchronize"};

std::string key_of(const Result& row) {
  return fmt::format("{} {} {} {} {}", row.sequence, row.layer, row.kv_head, row.policy,
                     row.budget);
}

/// A sweep on little memory, so that it takes several batches.
class SmallSweep {
 public:
  SmallSweep() {
    test_support::write_random_trace(folder_ / "t.h5", 1);
    trace_.emplace(folder_ / "t.h5");
    expected_ = rows_on(*make_cpu_backend());
  }

  std::vector<Result> rows_on(const Backend& backend) {
    std::vector<Result> rows;
    run(backend, rows);
    return rows;
  }

  // Rows of finished units are there even if it throws.
  void run(const Backend& backend, std::vector<Result>& rows) {
    SweepRequest request = test_support::request(*trace_, "h2o;topk", {"20%"});
    request.selection.layers = {1};
    request.threads = 1;
    const std::atomic<bool> interrupted = false;
    run_sweep(plan_sweep(request), backend, interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                for (const Outcome& outcome : outcomes) rows.push_back(outcome.result);
              });
  }

  std::size_t size() const { return expected_.size(); }

  void check(const std::vector<Result>& rows) const {
    std::set<std::string> keys;
    for (const Result& row : rows) {
      CHECK(keys.insert(key_of(row)).second);
      const auto same = std::find_if(expected_.begin(), expected_.end(), [&](const Result& other) {
        return key_of(other) == key_of(row);
      });
      REQUIRE(same != expected_.end());
      CHECK(test_support::differences(row, *same, 1e-4) == "");
    }
  }

 private:
  TemporaryFolder folder_;
  std::optional<Trace> trace_;
  std::vector<Result> expected_;
};

TEST_CASE("cuda failures: whichever call of a sweep fails, an error names it and rows are kept") {
  SmallSweep sweep;
  std::vector<Result> rows;
  std::size_t most_kept = 0;
  const auto work = [&](const Backend& backend) {
    rows.clear();
    sweep.run(backend, rows);
  };
  const auto check = [&](const Attempt& attempt) {
    sweep.check(rows);
    const bool ends = !attempt.failed_call.empty() && !kReleases.contains(attempt.failed_call);
    CHECK(attempt.error.empty() == !ends);
    if (ends) {
      CHECK(names(attempt.error, attempt.failed_call));
      CHECK(attempt.error.find('\n') == std::string::npos);
      most_kept = std::max(most_kept, rows.size());
    } else {
      CHECK(rows.size() == sweep.size());
    }
  };
  const auto failed = fail_each_call(cudaErrorLaunchFailure, kLittleMemory, work, check);
  CHECK(failed == kCallsOfReplays);
  CHECK(most_kept > 0);
}

TEST_CASE("cuda failures: a sweep goes on whichever call of a batch finds no memory") {
  SmallSweep sweep;
  std::vector<Result> rows;
  const auto work = [&](const Backend& backend) {
    rows.clear();
    sweep.run(backend, rows);
  };
  fail_each_call(cudaErrorMemoryAllocation, kLittleMemory, work, [&](const Attempt& attempt) {
    sweep.check(rows);
    if (attempt.error.empty()) {
      CHECK(rows.size() == sweep.size());
    } else {
      CHECK(attempt.error.starts_with("the CUDA device has no room for more ("));
      CHECK(names(attempt.error, attempt.failed_call));
      CHECK(rows.empty());  // only before the first batch
    }
  });
}

TEST_CASE("cuda failures: of attention, trajectories and summaries an error names the call") {
  Unit unit = test_support::random_unit({.tokens = 70, .group = 2}, 1);
  // As if recorded in float16, for the other of the two products.
  const auto half = [](float x) { return static_cast<float>(static_cast<Eigen::half>(x)); };
  unit.key = Matrix(unit.key.unaryExpr(half));
  for (Matrix& query : unit.query) query = Matrix(query.unaryExpr(half));
  const std::vector<Configuration> configurations{{Spec("h2o"), 10}};
  const UnitReplays replays{&unit, configurations};
  constexpr int kParts = 4;
  int num_done = 0;
  const auto work = [&](const Backend& backend) {
    num_done = 0;
    AttentionBlock block;
    backend.attend(unit)->compute(0, 32, Outputs::required, block);
    ++num_done;
    backend.replays()->replay({&replays, 1}, {.trajectories = true});
    ++num_done;
    backend.summaries()->count_small(unit, 1e-4);
    ++num_done;
    backend.summaries()->future_sums(unit, 0);
    ++num_done;
  };
  const auto error = GENERATE(cudaErrorLaunchFailure, cudaErrorMemoryAllocation);
  const auto failed = fail_each_call(error, {}, work, [&](const Attempt& attempt) {
    const bool is_done = attempt.error.empty();
    CHECK((is_done ? num_done == kParts : names(attempt.error, attempt.failed_call)));
    const bool is_of_memory = attempt.error.find("has no room for more") != std::string::npos;
    CHECK((is_done || is_of_memory == (error == cudaErrorMemoryAllocation)));
  });
  CHECK(failed.contains("cublasGemmStridedBatchedEx"));
  CHECK(failed.contains("cudaMemcpy2DAsync"));
  CHECK(failed.contains("cudaMallocHost"));
}

TEST_CASE("cuda failures: on a device without room for one replay a sweep says so in one line") {
  SmallSweep sweep;
  cuda_stub::set_up({.device_bytes = 5000});
  const auto backend = make_cuda_backend();
  CHECK_THROWS_WITH(
      sweep.rows_on(*backend),
      Catch::Matches("the CUDA device has no room for more \\(cudaMalloc of [0-9.]+ MiB: "
                     "out of memory\\); use --device cpu"));
}

}  // namespace kvsim::cuda_test::failing_calls_test
