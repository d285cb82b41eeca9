#include "tests/cuda/stub/state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvsim::cuda_stub {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;
constexpr std::byte kPoison{0xff};  // NaN, -1
constexpr std::byte kSlack{0xa5};   // from the end of an allocation to that of its last page

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

State& state() {
  static State only;
  return only;
}

std::byte* State::allocate(std::size_t bytes, bool on_device) {
  if (on_device && used_bytes() + bytes > settings.device_bytes) return nullptr;
  const std::size_t size = rounded_up(bytes, kAlignment);
  const std::size_t inner = rounded_up(size, kPage);
  void* const mapped =
      mmap(nullptr, inner + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const pages = static_cast<std::byte*>(mapped);
  mprotect(pages + kPage, inner, PROT_READ | PROT_WRITE);
  std::byte* const address = pages + kPage + inner - size;
  std::fill_n(address, bytes, kPoison);
  std::fill_n(address + bytes, size - bytes, kSlack);
  if (on_device) mprotect(pages + kPage, inner, PROT_NONE);
  memory[address] = {pages, inner + 2 * kPage, bytes, on_device};
  return address;
}

bool State::release(void* address, bool on_device) {
  auto* const bytes = static_cast<std::byte*>(address);
  const auto place = memory.find(bytes);
  if (place == memory.end() || place->second.on_device != on_device) {
    misuses.emplace_back("an address was freed that is none of an allocation");
    return false;
  }
  const Memory of = place->second;
  mprotect(of.pages + kPage, of.page_bytes - 2 * kPage, PROT_READ);
  const bool is_whole = std::all_of(bytes + of.bytes, bytes + rounded_up(of.bytes, kAlignment),
                                    [](std::byte b) { return b == kSlack; });
  if (!is_whole) misuses.emplace_back("something was written past the end of an allocation");
  munmap(of.pages, of.page_bytes);
  memory.erase(place);
  return true;
}

std::size_t State::used_bytes() const {
  std::size_t used = 0;
  for (const auto& [address, of] : memory) used += of.on_device ? of.bytes : 0;
  return used;
}

bool State::holds(const void* address, std::size_t bytes, bool on_device) const {
  const auto* const first = static_cast<const std::byte*>(address);
  auto place = memory.upper_bound(first);
  if (place == memory.begin()) return false;
  --place;
  return place->second.on_device == on_device &&
         first + bytes <= place->first + place->second.bytes;
}

void State::open(bool is_open) {
  for (const auto& [address, of] : memory) {
    if (!of.on_device) continue;
    mprotect(of.pages + kPage, of.page_bytes - 2 * kPage,
             is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

void State::run(std::deque<std::function<void()>>& work) {
  if (work.empty()) return;
  open(true);
  for (; !work.empty(); work.pop_front()) work.front()();
  open(false);
}

void State::finish(cudaStream_t stream) { run(stream->work); }

void State::finish_all() {
  run(orphans);
  for (const cudaStream_t stream : streams) run(stream->work);
}

Call::Call(const char* name) : lock_(state().mutex) {
  State& of = state();
  ++of.num_calls;
  fails_ = of.failing_call-- == 0;
  if (fails_) of.failed_call = name;
}

namespace {
thread_local cudaError_t last_error = cudaSuccess;
}  // namespace

cudaError_t Call::returns(cudaError_t status) const {
  if (fails_) status = state().error;
  if (status != cudaSuccess) last_error = status;
  return status;
}

void set_up(const Settings& settings) {
  State& of = state();
  const std::lock_guard<std::mutex> lock(of.mutex);
  of.settings = settings;
  of.num_calls = 0;
  of.failing_call = -1;
  of.failed_call.clear();
  of.misuses.clear();
  of.shared_limits.clear();
}

void fail_call(int nth, cudaError_t error) {
  State& of = state();
  const std::lock_guard<std::mutex> lock(of.mutex);
  of.failing_call = nth;
  of.error = error;
  of.failed_call.clear();
}

int num_calls() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().num_calls;
}

std::string failed_call() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().failed_call;
}

Live live() {
  const State& of = state();
  const std::lock_guard<std::mutex> lock(state().mutex);
  Live found{.streams = static_cast<int>(of.streams.size()), .handles = of.num_handles};
  for (const auto& [address, memory] : of.memory) {
    ++(memory.on_device ? found.device_memory : found.host_memory);
  }
  return found;
}

std::vector<std::string> misuses() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().misuses;
}

}  // namespace kvsim::cuda_stub

extern "C" cudaError_t cudaGetLastError() {
  return std::exchange(kvsim::cuda_stub::last_error, cudaSuccess);
}
