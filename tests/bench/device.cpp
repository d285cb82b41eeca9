// Times the same sweeps as `sweeps` on a CUDA device, kernel by kernel and as a whole, and writes
// them as JSON with what the device can do at most. Without a device it says so and writes none.

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "gpu/batch_replay.h"
#include "gpu/cuda/cuda_backend.h"
#include "gpu/cuda/cuda_device.h"
#include "sim/sweep/in_parallel.h"
#include "tests/bench/cases.h"
#include "tests/bench/device_ceilings.h"
#include "tests/bench/program.h"
#include "tests/bench/structured_heads.h"

namespace kvsim::bench {
namespace {

namespace po = boost::program_options;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  Shape shape{.tokens = 4096, .heads = 256};
  int threads = 4;
  int repeats = 3;
  std::string json_file;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Waits for each piece of work and notes how long it took.
class TimedDevice final : public gpu::Device {
 public:
  std::size_t free_bytes() const override { return device_->free_bytes(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return device_->allocate(bytes);
  }
  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override {
    return device_->allocate_host(bytes);
  }
  void upload(const void* host, std::size_t bytes, void* to) override {
    time("upload", [&] { device_->upload(host, bytes, to); });
  }
  void download(const void* from, std::size_t bytes, void* host) override {
    time("download", [&] { device_->download(from, bytes, host); });
  }
  void download_rows(const void* from, std::size_t stride, std::size_t bytes, std::size_t rows,
                     void* host) override {
    time("download", [&] { device_->download_rows(from, stride, bytes, rows, host); });
  }
  void multiply_keys(const gpu::Batch& batch) override {
    time("multiply_keys", [&] {
      device_->multiply_keys(batch);
      wait();
    });
  }
  void run(gpu::Kernel kernel, const gpu::Batch& batch) override {
    time(gpu::name_of(kernel), [&] {
      device_->run(kernel, batch);
      wait();
    });
  }
  void wait() override { device_->wait(); }

  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  template <class Work>
  void time(const std::string& name, Work work) {
    const auto start = Clock::now();
    work();
    seconds_[name] += seconds_since(start);
  }

  std::unique_ptr<gpu::Device> device_ = gpu::make_cuda_device();
  std::map<std::string, double> seconds_;
};

std::vector<UnitReplays> replays_of(const std::vector<Unit>& heads, const Case& what) {
  std::vector<UnitReplays> replays;
  for (const Unit& head : heads) replays.push_back({&head, what.configurations});
  return replays;
}

// As many as a sweep hands over at once.
std::size_t heads_at_once(const std::vector<UnitReplays>& replays, const Backend& backend,
                          const Options& options) {
  const ReplayShape shape{.num_tokens = static_cast<std::size_t>(options.shape.tokens),
                          .head_dim = static_cast<std::size_t>(options.shape.head_dim),
                          .value_dim = static_cast<std::size_t>(options.shape.head_dim)};
  std::vector<Rules> rules;
  for (const Configuration& configuration : replays.front().configurations) {
    rules.push_back(configuration.policy.rules({.budget = configuration.budget}));
  }
  const auto threads = static_cast<std::size_t>(options.threads);
  const std::size_t share = (replays.size() + threads - 1) / threads;
  return std::min(share, backend.replays()->units_at_once(shape, rules, options.threads));
}

double time_once(const std::vector<UnitReplays>& replays, const Backend& backend,
                 const Options& options) {
  const std::size_t count = heads_at_once(replays, backend, options);
  const std::atomic<bool> interrupted = false;
  const auto start = Clock::now();
  in_parallel((replays.size() + count - 1) / count, options.threads, interrupted,
              [&](std::size_t group) {
                const std::size_t first = group * count;
                const std::size_t end = std::min(first + count, replays.size());
                backend.replays()->replay(std::span(replays).subspan(first, end - first), {});
              });
  return seconds_since(start);
}

json measure(const Case& what, const std::vector<Unit>& heads, const Backend& backend,
             const Options& options) {
  const auto replays = replays_of(heads, what);
  std::vector<double> seconds;
  for (int i = 0; i <= options.repeats; ++i) {
    seconds.push_back(time_once(replays, backend, options));
  }
  seconds.erase(seconds.begin());  // the first one starts CUDA
  TimedDevice timed;
  const std::size_t at_once = heads_at_once(replays, backend, options);
  gpu::replay_on(timed, std::span(replays).first(at_once), {});
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double flops = what.flops(options.shape.tokens, options.shape.head_dim);
  fmt::print("{:<26}{:>10.3f} ms per head{:>10.1f} GFLOP/s\n", what.title,
             1e3 * median / options.shape.heads, 1e-9 * flops * options.shape.heads / median);
  for (const auto& [name, spent] : timed.seconds()) {
    fmt::print("  {:<24}{:>10.3f} ms per head, alone\n", name,
               1e3 * spent / static_cast<double>(at_once));
  }
  json configurations = json::array();
  for (const Configuration& configuration : what.configurations) {
    configurations.push_back(
        {{"policy", configuration.policy.text()}, {"budget", configuration.budget}});
  }
  return {{"id", what.id},
          {"configurations", configurations},
          {"title", what.title},
          {"seconds", seconds},
          {"ms_per_head", 1e3 * median / options.shape.heads},
          {"gflop_per_s", 1e-9 * flops * options.shape.heads / median},
          {"kernel_seconds", timed.seconds()},
          {"kernel_heads", at_once}};
}

void run(const Options& options) {
  if (!cuda_available()) {
    std::cout << "no CUDA device\n";
    return;
  }
  json report = {{"tokens", options.shape.tokens},
                 {"head_dim", options.shape.head_dim},
                 {"heads", options.shape.heads},
                 {"threads", options.threads},
                 {"ceilings", device_ceilings()}};
  std::cout << report["ceilings"].dump(1) << '\n';
  const std::vector<Unit> heads = structured_heads(options.shape, 1);
  const auto backend = make_cuda_backend();
  const auto cpu = make_cpu_backend();
  for (const Case& what : all_cases(options.shape.tokens, *cpu)) {
    const bool is_curve = what.id.starts_with("curve");
    if (!is_curve) report["cases"].push_back(measure(what, heads, *backend, options));
  }
  write_report(report, options.json_file);
}

Options parse(int argc, char** argv) {
  Options options;
  po::options_description description;
  const auto add = [&](const char* name, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    description.add_options()(name, po::value<Field>(&field)->default_value(field));
  };
  add("tokens", options.shape.tokens);
  add("head-dim", options.shape.head_dim);
  add("heads", options.shape.heads);
  add("threads", options.threads);
  add("repeats", options.repeats);
  add("json", options.json_file);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(description).positional({}).run(), values);
  po::notify(values);
  return options;
}

}  // namespace
}  // namespace kvsim::bench

int main(int argc, char** argv) {
  return kvsim::bench::run_program("device",
                                   [&] { kvsim::bench::run(kvsim::bench::parse(argc, argv)); });
}
