#include "gpu/kernels/thread_block.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <vector>

#include "gpu/batch_replay.h"
#include "sim/base/random_bits.h"
#include "tests/gpu/emulated_threads.h"
#include "tests/gpu/host_device.h"
#include "tests/support/compare.h"
#include "tests/support/nightly.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::thread_block_test {

using Block = gpu::ThreadBlock<EmulatedThreads>;

/// Runs thread blocks as CUDA does, one after the other: those of all kernels with the most
/// threads, or replays by a warp each and the rest as HostDevice does.
class EmulatedDevice final : public HostDevice {
 public:
  explicit EmulatedDevice(bool by_warp) : by_warp_(by_warp) {}

  void run(gpu::Kernel kernel, const gpu::Batch& batch) override {
    gpu::dispatch(kernel, [&]<gpu::Kernel kKernel>() {
      if constexpr (kKernel == gpu::Kernel::replay_steps) {
        CHECK(gpu::num_threads(kernel, batch) == gpu::kWarpThreads);
        if (by_warp_) return run_blocks<kKernel, gpu::kWarpThreads>(batch);
      }
      if (by_warp_) return HostDevice::run(kernel, batch);
      run_blocks<kKernel, gpu::kMostThreads>(batch);
    });
  }

 private:
  template <gpu::Kernel kKernel, int kThreads>
  void run_blocks(const gpu::Batch& batch) {
    std::vector<double> on_chip(1 << 10);
    const auto work = [&] {
      for (int index = 0; index < num_thread_blocks(kKernel, batch); ++index) {
        gpu::ThreadBlock<EmulatedThreads, kThreads> block(on_chip.data(),
                                                          on_chip.size() * sizeof(double));
        gpu::run_thread_block<kKernel>(block, batch, index);
        EmulatedThreads::synchronize();  // as the next block takes the same memory
      }
    };
    run_emulated(work, kThreads);
  }

  bool by_warp_;
};

TEST_CASE("thread block: all threads get what they combine, one call after the other") {
  const std::vector<int> counts = {0, 1, 31, 32, 256, 257, 1000};
  std::vector<long long> wrong(Block::kThreads, 0);
  run_emulated([&] {
    Block block(nullptr, 0);
    for (const int count : counts) {
      const long long sum = block.reduce(
          count, 0LL, [](int i) { return 3LL * i; },
          [](long long a, long long b) { return a + b; });
      const int largest = block.reduce(
          count, -1, [](int i) { return i; }, [](int a, int b) { return a < b ? b : a; });
      wrong[EmulatedThreads::index()] +=
          (sum != 3LL * count * (count - 1) / 2) + (largest != count - 1);
    }
  });
  CHECK(std::accumulate(wrong.begin(), wrong.end(), 0LL) == 0);
}

TEST_CASE("thread block: what is selected is taken once, in ascending places") {
  for (const int count : {0, 1, 100, 256, 700}) {
    std::vector<int> taken(count, -1);
    int num_taken = -1;
    run_emulated([&] {
      Block block(nullptr, 0);
      const int selected = block.select(
          count, [](int i) { return i % 3 == 1; }, [&](int i, int place) { taken[place] = i; });
      block.once([&] { num_taken = selected; });
    });
    CHECK(num_taken == (count + 1) / 3);
    for (int place = 0; place < num_taken; ++place) CHECK(taken[place] == 3 * place + 1);
  }
}

TEST_CASE("thread block: the key of a rank is that of the sorted keys") {
  for (const int count : {1, 300, 700}) {
    const auto key_of = [](int i) {
      const std::uint64_t key = random_bits(7, static_cast<std::uint64_t>(i % 260));
      return i % 3 == 0 ? key % 5 : i % 3 == 1 ? key >> 40 : key;
    };
    std::vector<std::uint64_t> sorted;
    for (int i = 0; i < count; ++i) sorted.push_back(key_of(i));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (const int rank : {0, count / 3, count - 1}) {
      CAPTURE(count, rank);
      gpu::RankedKey<std::uint64_t> found{};
      std::vector<int> wrong(Block::kThreads, 0);
      run_emulated([&] {
        Block block(nullptr, 0);
        const auto of_thread = gpu::find_ranked_key<std::uint64_t>(block, count, rank, key_of);
        wrong[EmulatedThreads::index()] = of_thread.key != sorted[rank];
        block.once([&] { found = of_thread; });
      });
      CHECK(found.key == sorted[rank]);
      CHECK(found.num_larger ==
            std::find(sorted.begin(), sorted.end(), sorted[rank]) - sorted.begin());
      CHECK(std::accumulate(wrong.begin(), wrong.end(), 0) == 0);
    }
  }
}

// Small whole numbers: sums of their products are exact in any order.
float left_of(int row, int term) { return static_cast<float>((row * 31 + term * 7) % 19 - 9); }
float right_of(int term, int dim) { return static_cast<float>((term * 13 + dim * 5) % 23 - 11); }

/// Entries are terms in reverse order. A third of them count in the rows from row 20 on only, and a
/// fifth with a factor of -1.
struct TileOperands {
  int count;

  int num_terms() const { return count; }
  std::int32_t entry(int term) const { return count - 1 - term; }
  std::int32_t last_without(std::int32_t entry) const { return entry % 3 == 0 ? 19 : -1; }
  float weight(int row, std::int32_t entry) const { return left_of(row, entry); }
  float value(std::int32_t entry, int dim) const { return right_of(entry, dim); }
  float factor(int row, std::int32_t entry, std::int32_t last_without) const {
    return row <= last_without ? 0.F : entry % 5 == 0 ? -1.F : 1.F;
  }
};

TEST_CASE("thread block: a tile is the product of its operands, panel after panel") {
  const TileOperands operands{GENERATE(0, 1, 16, 37, 48)};
  std::vector<double> product(gpu::kTileRows * gpu::kTileDims, -1);
  run_emulated([&] {
    Block block(nullptr, 0);
    Block::Tile tile(block);
    tile.add_products(operands);
    tile.add_products(operands);
    tile.for_each([&](int row, int dim, double sum) { product[row * gpu::kTileDims + dim] = sum; });
  });
  for (int row = 0; row < gpu::kTileRows; ++row) {
    for (int dim = 0; dim < gpu::kTileDims; ++dim) {
      double expected = 0;
      for (int term = 0; term < operands.count; ++term) {
        expected += operands.factor(row, term, operands.last_without(term)) *
                    operands.weight(row, term) * operands.value(term, dim);
      }
      CHECK(product[row * gpu::kTileDims + dim] == 2 * expected);
    }
  }
}

TEST_CASE("thread block: a product in parts is the large product, lane by lane") {
  std::vector<int> num_wrong(32, 0);
  const auto work = [&] {
    const int lane = EmulatedThreads::index();
    double a[8];
    double b[4];
    double whole[4];
    double parts[4];
    for (int i = 0; i < 8; ++i) a[i] = left_of(lane, i);
    for (int i = 0; i < 4; ++i) b[i] = right_of(i, lane);
    for (int i = 0; i < 4; ++i) whole[i] = parts[i] = lane + i;
    EmulatedThreads::multiply_add(whole, a, b);
    gpu::multiply_in_parts<EmulatedThreads>(parts, a, b);
    for (int i = 0; i < 4; ++i) num_wrong[lane] += static_cast<int>(whole[i] != parts[i]);
  };
  run_emulated(work, 32);
  CHECK(std::accumulate(num_wrong.begin(), num_wrong.end(), 0) == 0);
}

// Compares replays by threads that run at the same time, 256 or a warp, with the CPU's.
void check_replays(bool by_warp, const Unit& unit, const std::vector<std::string>& specs,
                   int budget, Mode mode) {
  std::vector<Configuration> configurations;
  for (const std::string& spec : specs) configurations.push_back({Spec(spec), budget});
  const ReplayOptions options{.protocol = {.mode = mode}, .trajectories = true};
  const auto expected = replay(unit, configurations, options, *make_cpu_backend());
  EmulatedDevice device(by_warp);
  const UnitReplays replays{&unit, configurations};
  const auto tested = gpu::replay_on(device, {&replays, 1}, options);
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    INFO(configurations[i].policy.text());
    CHECK(tested[0][i].trajectory.evicted_after == expected[i].trajectory.evicted_after);
    CHECK(test_support::differences(tested[0][i].result, expected[i].result, 1e-4) == "");
  }
}

// Where the sanitizers watch, which slow 256 threads down most, a warp alone.
std::vector<int> kinds_of_blocks() {
  return test_support::is_watched() ? std::vector{1} : std::vector{0, 1};
}

TEST_CASE("thread block: threads that run at the same time replay as the CPU does") {
  const bool by_warp = GENERATE(from_range(kinds_of_blocks())) == 1;
  const int group = by_warp ? 5 : 2;
  const Unit unit = test_support::random_unit({.tokens = 6, .head_dim = 3, .group = group}, 5);
  std::vector<std::string> specs = {"h2o", "scissorhands", "topk"};
  if (by_warp || test_support::is_nightly()) {
    specs.insert(specs.end(), {"window", "snapkv:window=2", "keydiff"});
  }
  check_replays(by_warp, unit, specs, 3, Mode::stream);
}

TEST_CASE("thread block: threads that run at the same time read a prompt as the CPU does") {
  // More than a warp reads at once; by day less for 256 threads, which all wait for each other.
  const bool by_warp = GENERATE(from_range(kinds_of_blocks())) == 1;
  const int prompt = by_warp || test_support::is_nightly() ? 34 : 12;
  const Unit unit =
      test_support::random_unit({.tokens = prompt + 2, .head_dim = 3, .prompt_length = prompt}, 5);
  check_replays(by_warp, unit, {"h2o", "snapkv:window=2"}, prompt == 34 ? 10 : 5, Mode::prefill);
}

}  // namespace kvsim::gpu_test::thread_block_test
