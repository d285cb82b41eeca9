#include "tests/gpu/emulated_threads.h"

#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/kernels/thread_block.h"

namespace kvsim::gpu_test {
namespace {

using Block = gpu::ThreadBlock<EmulatedThreads>;

constexpr int kLanes = 32;

thread_local int own_index = 0;

std::unique_ptr<std::barrier<>>& block_meeting() {
  static std::unique_ptr<std::barrier<>> meeting;
  return meeting;
}

/// Where the lanes of one warp show each other what they have. Two sets in turn, so that nobody
/// overwrites what another one still reads.
class Warp {
 public:
  struct Shown {
    unsigned word;
    double a;
    double b;
  };

  const std::array<Shown, kLanes>& show(int lane, const Shown& shown) {
    thread_local int turn = 0;
    turn = 1 - turn;
    shown_[turn][lane] = shown;
    meeting_.arrive_and_wait();
    return shown_[turn];
  }

 private:
  std::barrier<> meeting_{kLanes};
  std::array<std::array<Shown, kLanes>, 2> shown_;
};

int own_lane() { return own_index % kLanes; }

const std::array<Warp::Shown, kLanes>& show(const Warp::Shown& shown) {
  static std::array<Warp, Block::kWarps> warps;
  return warps[own_index / kLanes].show(own_lane(), shown);
}

}  // namespace

int EmulatedThreads::index() { return own_index; }

void EmulatedThreads::synchronize() { block_meeting()->arrive_and_wait(); }

void EmulatedThreads::increment(int& number) { ++std::atomic_ref<int>(number); }

unsigned EmulatedThreads::from_lane_above(unsigned word, int distance) {
  const auto& shown = show({word, 0, 0});
  const int from = own_lane() + distance;
  return shown[from < kLanes ? from : own_lane()].word;
}

unsigned EmulatedThreads::ballot(bool yes) {
  const auto& shown = show({yes, 0, 0});
  unsigned bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= shown[lane].word << lane;
  return bits;
}

// Lane l has a[l / 4, l % 4] and b[l % 4, l / 4].
void EmulatedThreads::multiply_add(double (&sum)[2], double a, double b) {
  const auto& shown = show({0, a, b});
  const int row = own_lane() / 4;
  for (int i = 0; i < 2; ++i) {
    const int column = 2 * (own_lane() % 4) + i;
    for (int k = 0; k < 4; ++k) sum[i] += shown[4 * row + k].a * shown[4 * column + k].b;
  }
}

void run_emulated(const std::function<void()>& work, int num_threads) {
  block_meeting() = std::make_unique<std::barrier<>>(num_threads);
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&work, i] {
      own_index = i;
      work();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace kvsim::gpu_test
