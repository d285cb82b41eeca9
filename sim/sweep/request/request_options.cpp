#include "sim/sweep/request/request_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sim/base/amount_list.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/request/lists.h"

namespace kvsim {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kMostInterval = 1'000'000;

Mode mode_of(const RequestOptions& options) {
  check_choice("--mode", options.mode, {"stream", "prefill"});
  return options.mode == "stream" ? Mode::stream : Mode::prefill;
}

int interval_of(const RequestOptions& options) {
  const std::string& text = options.eviction_interval;
  if (text == "never") return kNeverEvict;
  int interval = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, interval);
  if (result.ec != std::errc() || result.ptr != end || interval < 1 || interval > kMostInterval) {
    throw UsageError(fmt::format("--eviction-interval: expected 1..{} tokens or never, found '{}'",
                                 kMostInterval, text));
  }
  return interval;
}

constexpr std::string_view kSample = "sample:";

int samples_of(std::string_view text) {
  int samples = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, samples);
  if (result.ec != std::errc() || result.ptr != end || samples < 1) {
    throw UsageError(
        fmt::format("--reference sample:N: expected 1 step or more, found '{}'", text));
  }
  return samples;
}

MeasureOptions measuring_of(const RequestOptions& options) {
  MeasureOptions measuring{.error_stride = options.every};
  if (options.reference.starts_with(kSample)) {
    measuring.reference = Reference::sample;
    measuring.samples = samples_of(std::string_view(options.reference).substr(kSample.size()));
  } else {
    check_choice("--reference", options.reference, {"full", "none", "sample:N"});
    if (options.reference == "none") measuring.reference = Reference::none;
  }
  if (measuring.error_stride < 1) {
    throw UsageError(fmt::format("--every: expected 1 or more, found {}", measuring.error_stride));
  }
  if (measuring.error_stride > 1 && !measuring.has_reference()) {
    throw UsageError(fmt::format("--every {}: --reference {} {}; leave one of them out",
                                 measuring.error_stride, options.reference,
                                 measuring.measures() ? "says at which steps errors are taken"
                                                      : "has no output error to take"));
  }
  return measuring;
}

}  // namespace

RequestOptions::RequestOptions() : threads(default_threads()) {}

SweepRequest request_of(const RequestOptions& options) {
  SweepRequest request;
  request.selection = selection_of(options);
  request.mode = mode_of(options);
  request.eviction_interval = interval_of(options);
  request.seed = checked_seed(options.seed);
  request.threads = threads_of(options);
  request.measuring = measuring_of(options);
  request.shard = parse_shard(options.shard);
  return request;
}

Selection selection_of(const RequestOptions& options) {
  Selection selection{.sequences = options.sequences};
  if (!options.layers.empty()) selection.layers = parse_indices(options.layers, "--layers");
  if (!options.heads.empty()) selection.kv_heads = parse_indices(options.heads, "--heads");
  return selection;
}

Allocation allocation_of(const RequestOptions& options) {
  check_choice("--allocate", options.allocate, allocation_names());
  return parse_allocation(options.allocate);
}

int threads_of(const RequestOptions& options) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    throw UsageError(
        fmt::format("--threads: expected 1..{}, found {}", kMostThreads, options.threads));
  }
  return options.threads;
}

std::int64_t checked_seed(std::int64_t seed) {
  if (seed >= 0) return seed;
  throw UsageError(fmt::format("--seed: expected 0 or more, found {}", seed));
}

std::vector<Amount> parse_budgets(std::span<const std::string> lists) {
  std::vector<Amount> budgets;
  const auto add = [&](const Amount& amount) {
    if (amount.value() == 0) throw UsageError("budget '0' keeps nothing; 1 token is the least");
    const auto same = [&](const Amount& other) {
      return other.is_share() == amount.is_share() && other.value() == amount.value();
    };
    if (std::none_of(budgets.begin(), budgets.end(), same)) budgets.push_back(amount);
  };
  for (const std::string& list : lists) {
    for (const std::string& part : parse_list(list, "budget")) {
      for (const Amount& amount : parse_amounts(part, "budget")) add(amount);
    }
  }
  return budgets;
}

std::vector<Amount> parse_budgets(const std::string& list) { return parse_budgets({&list, 1}); }

void check_choice(const std::string& option, const std::string& value,
                  const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  throw UsageError(fmt::format("{}: expected {}, found '{}'; did you mean '{}'?", option,
                               fmt::join(choices, "|"), value, nearest(value, choices)));
}

}  // namespace kvsim
