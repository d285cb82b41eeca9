// Times whole sweeps over synthetic heads in memory, spread over threads as `kvsim sweep` spreads
// them, and writes what was measured as JSON.

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "sim/results/version.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/sweep_plan.h"
#include "tests/bench/cases.h"
#include "tests/bench/program.h"
#include "tests/bench/raw_heads.h"
#include "tests/bench/recorded_heads.h"
#include "tests/bench/structured_heads.h"

namespace kvsim::bench {
namespace {

namespace po = boost::program_options;
using nlohmann::json;

struct Options {
  Shape shape;
  std::uint64_t seed = 1;
  int threads = default_threads();
  int repeats = 5;
  double most_seconds = 60;
  std::string json_file;
  std::string heads_file;
  std::string raw_file;
  std::string only;
  std::string trace_file =
      std::filesystem::temp_directory_path() / fmt::format("kvsim-bench-{}.h5", getpid());
};

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

struct Timing {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;             ///< of all threads together
  std::vector<std::vector<Outcome>> outcomes;  ///< per head and configuration

  double spent() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
};

// Of this process. What other programs do delays a thread but hardly adds to it.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Throws po::error; nothing if the help was asked for.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description description("Options");
  const auto add = [&](const char* name, auto& field, const char* help) {
    using Field = std::remove_reference_t<decltype(field)>;
    description.add_options()(name, po::value<Field>(&field)->default_value(field), help);
  };
  description.add_options()("help,h", "show this");
  add("tokens", options.shape.tokens, "tokens per head");
  add("head-dim", options.shape.head_dim, "size of a query, a key and a value");
  add("heads", options.shape.heads, "heads");
  add("seed", options.seed, "of the heads");
  add("threads", options.threads, "threads, each on one head at a time");
  add("repeats", options.repeats, "times that each case is timed");
  add("most-seconds", options.most_seconds, "a case that took as long is not repeated");
  add("json", options.json_file, "file to write the measurements to");
  add("heads-file", options.heads_file,
      "file to read the heads from: queries, keys, values, each [heads, tokens, head-dim] in "
      "float32; without it they are made up");
  add("write-heads", options.raw_file, "file to write the heads to in this form");
  add("only", options.only, "cases to time, as a list of ids with commas; without it all");
  add("trace-file", options.trace_file, "file to write the heads to as a trace, and to remove");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(description).positional({}).run(), values);
  po::notify(values);
  if (values.count("help") != 0) {
    std::cout << description;
    return std::nullopt;
  }
  const Shape& shape = options.shape;
  if (std::min({shape.tokens, shape.head_dim, shape.heads, options.threads, options.repeats}) < 1) {
    throw po::error("tokens, head-dim, heads, threads and repeats are at least 1");
  }
  return options;
}

void time_once(const Case& what, const std::vector<Unit>& heads, int threads, Timing& timing) {
  using Clock = std::chrono::steady_clock;
  const std::atomic<bool> interrupted = false;
  timing.outcomes.assign(heads.size(), {});
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  in_parallel(heads.size(), threads, interrupted,
              [&](std::size_t head) { timing.outcomes[head] = what.run(heads[head]); });
  timing.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  timing.cpu_seconds.push_back(cpu_seconds() - cpu_before);
}

// In rounds over all cases: what else the machine does then disturbs all alike, and not a ratio.
std::vector<Timing> time_all(const std::vector<Case>& cases, const std::vector<Unit>& heads,
                             const Options& options) {
  std::vector<Timing> timings(cases.size());
  Timing warm_up;
  time_once(cases.front(), heads, options.threads, warm_up);
  for (int round = 0; round < options.repeats; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (timings[i].spent() > options.most_seconds) continue;
      time_once(cases[i], heads, options.threads, timings[i]);
    }
  }
  return timings;
}

json results_of(const Case& what, const Timing& timing) {
  json rows = json::array();
  for (std::size_t i = 0; i < what.configurations.size(); ++i) {
    const Configuration& configuration = what.configurations[i];
    json row = {{"policy", configuration.policy.text()}, {"budget", configuration.budget}};
    for (const auto& of_head : timing.outcomes) {
      row["attention_loss"].push_back(*of_head[i].result.attention_loss);
      row["output_error_mean"].push_back(*of_head[i].result.output_error_mean);
    }
    rows.push_back(row);
  }
  return rows;
}

json measured(const Case& what, const Timing& timing, const Shape& shape) {
  const double seconds = median(timing.seconds);
  const double heads = shape.heads;
  const auto count = static_cast<double>(std::max<std::size_t>(1, what.configurations.size()));
  const double trace_bytes = 3.0 * sizeof(float) * heads * shape.tokens * shape.head_dim;
  return {{"id", what.id},
          {"title", what.title},
          {"seconds", timing.seconds},
          {"cpu_seconds", timing.cpu_seconds},
          {"ms_per_head", 1e3 * seconds / heads},
          {"cpu_ms_per_head", 1e3 * median(timing.cpu_seconds) / heads},
          {"tokens_heads_configurations_per_s", heads * shape.tokens * count / seconds},
          {"gflop_per_s", 1e-9 * heads * what.flops(shape.tokens, shape.head_dim) / seconds},
          {"trace_bytes_read", trace_bytes},
          {"reads_trace", what.reads_trace},
          {"configurations", results_of(what, timing)}};
}

void print(const json& timed) {
  fmt::print(
      "{:<28}{:>9.2f} ms per head{:>9.2f} of CPU time{:>9.3f} M tokens x heads x configurations/s"
      "{:>8.1f} GFLOP/s\n",
      timed["title"].get<std::string>(), timed["ms_per_head"].get<double>(),
      timed["cpu_ms_per_head"].get<double>(),
      1e-6 * timed["tokens_heads_configurations_per_s"].get<double>(),
      timed["gflop_per_s"].get<double>());
}

/// A file that is there as long as the object.
struct ScratchTrace {
  ScratchTrace(const std::vector<Unit>& heads, const std::filesystem::path& path) : file(path) {
    write_trace(heads, file);
  }
  ~ScratchTrace() {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
  ScratchTrace(const ScratchTrace&) = delete;
  ScratchTrace& operator=(const ScratchTrace&) = delete;

  std::filesystem::path file;
};

void keep_only(const std::string& ids, std::vector<Case>& cases) {
  if (ids.empty()) return;
  const std::string listed = "," + ids + ",";
  std::erase_if(
      cases, [&](const Case& one) { return listed.find("," + one.id + ",") == std::string::npos; });
  if (cases.empty()) throw po::error("no case is called " + ids);
}

void run(const Options& options) {
  const std::vector<Unit> heads = options.heads_file.empty()
                                      ? structured_heads(options.shape, options.seed)
                                      : read_raw(options.heads_file, options.shape);
  if (!options.raw_file.empty()) write_raw(heads, options.raw_file);
  const auto backend = make_cpu_backend();
  std::vector<Case> cases = all_cases(options.shape.tokens, *backend);
  const ScratchTrace scratch(heads, options.trace_file);
  const auto in_memory = std::find_if(cases.begin(), cases.end(),
                                      [](const Case& listed) { return listed.id == "h2o"; });
  cases.push_back(
      with_reading(*in_memory, "h2o_trace", "H2O at 20%, from a trace", Trace(scratch.file)));
  keep_only(options.only, cases);
  const std::vector<Timing> timings = time_all(cases, heads, options);
  json report = {{"kvsim_version", version()},     {"compiler", KVSIM_BENCH_COMPILER},
                 {"flags", KVSIM_BENCH_FLAGS},     {"threads", options.threads},
                 {"tokens", options.shape.tokens}, {"head_dim", options.shape.head_dim},
                 {"heads", options.shape.heads},   {"seed", options.seed}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    report["cases"].push_back(measured(cases[i], timings[i], options.shape));
    print(report["cases"].back());
  }
  write_report(report, options.json_file);
}

}  // namespace
}  // namespace kvsim::bench

int main(int argc, char** argv) {
  return kvsim::bench::run_program("sweeps", [&] {
    if (const auto options = kvsim::bench::parse(argc, argv)) kvsim::bench::run(*options);
  });
}
