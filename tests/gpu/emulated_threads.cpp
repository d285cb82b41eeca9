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
    unsigned word = 0;
    std::array<double, 8> a = {};
    std::array<double, 4> b = {};
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
  const auto& shown = show({.word = word});
  const int from = own_lane() + distance;
  return shown[from < kLanes ? from : own_lane()].word;
}

unsigned EmulatedThreads::ballot(bool yes) {
  const auto& shown = show({.word = yes});
  unsigned bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= shown[lane].word << lane;
  return bits;
}

// Rows and columns of the elements are those that the PTX ISA states, with the names that it uses.
void EmulatedThreads::multiply_add(double (&sum)[4], const double (&a)[8], const double (&b)[4]) {
  const auto& shown = show({.a = std::to_array(a), .b = std::to_array(b)});
  double left[16][16];
  double right[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2;
    const int in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i % 2 == 0 ? group : group + 8;
      const int column = i % 2 == 0 ? 2 * i + in_group : 2 * i - 2 + in_group;
      left[row][column] = shown[lane].a[i];
    }
    for (int i = 0; i < 4; ++i) right[in_group + 4 * i][group] = shown[lane].b[i];
  }
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? own_lane() >> 2 : (own_lane() >> 2) + 8;
    const int column = 2 * (own_lane() % 4) + (i & 1);
    for (int k = 0; k < 16; ++k) sum[i] += left[row][k] * right[k][column];
  }
}

// Lane l has a[l / 4, l % 4] and b[l % 4, l / 4].
void EmulatedThreads::multiply_add_part(double& sum0, double& sum1, double a, double b) {
  const auto& shown = show({.a = {a}, .b = {b}});
  const int row = own_lane() / 4;
  const int column = 2 * (own_lane() % 4);
  for (int k = 0; k < 4; ++k) {
    sum0 += shown[4 * row + k].a[0] * shown[4 * column + k].b[0];
    sum1 += shown[4 * row + k].a[0] * shown[4 * (column + 1) + k].b[0];
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
