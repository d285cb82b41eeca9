#include "sim/protocol/protocol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

constexpr int kMostInterval = 1'000'000;
constexpr int kMostPage = 1'000'000;
constexpr std::string_view kNever = "never";
constexpr std::string_view kSample = "sample:";

/// A number from 1 to `most`.
std::optional<int> parse_count(std::string_view text, int most = std::numeric_limits<int>::max()) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, count);
  if (result.ec != std::errc() || result.ptr != end || count < 1 || count > most) return {};
  return count;
}

int parse_interval(const std::string& text) {
  if (text == kNever) return kNeverEvict;
  if (const auto interval = parse_count(text, kMostInterval)) return *interval;
  throw UsageError(fmt::format("--eviction-interval: expected 1..{} tokens or never, found '{}'",
                               kMostInterval, text));
}

void parse_reference(const std::string& text, Protocol& protocol) {
  if (!text.starts_with(kSample)) {
    check_choice("--reference", text, {"full", "none", "sample:N"});
    protocol.reference = text == "none" ? Reference::none : Reference::full;
    return;
  }
  const std::string_view number = std::string_view(text).substr(kSample.size());
  const auto samples = parse_count(number);
  if (!samples) {
    throw UsageError(
        fmt::format("--reference sample:N: expected 1 step or more, found '{}'", number));
  }
  protocol.reference = Reference::sample;
  protocol.samples = *samples;
}

constexpr std::array kPageScores = {"mean", "max", "min"};  // in the order of PageScore

Paging paging_of(const ProtocolOptions& options) {
  if (options.page < 1 || options.page > kMostPage) {
    throw UsageError(
        fmt::format("--page: expected 1..{} tokens, found {}", kMostPage, options.page));
  }
  check_choice("--page-score", options.page_score, {kPageScores.begin(), kPageScores.end()});
  const auto score = std::ranges::find(kPageScores, options.page_score) - kPageScores.begin();
  if (options.page == 1 && score != 0) {
    throw UsageError(
        fmt::format("--page-score {}: a page of one token has the score of the token; give --page, "
                    "or leave it out",
                    options.page_score));
  }
  return {.size = options.page, .score = static_cast<PageScore>(score)};
}

/// The key of an option in a name.
std::string key_of(std::string_view option) {
  if (option == "eviction_interval") return "interval";
  return option == "page_score" ? "page-score" : std::string(option);
}

/// "key=value" for each option that a name shows, the defaults among them.
std::vector<std::string> settings_of(ProtocolOptions options) {
  std::vector<std::string> settings;
  options.each([&](std::string_view option, const auto& value, const char*) {
    if (option != "mode") settings.push_back(fmt::format("{}={}", key_of(option), value));
  });
  return settings;
}

void set(std::string& value, std::string_view text) { value = text; }
void set(int& value, std::string_view text) { value = parse_count(text).value_or(0); }

/// The options in a name; what is none is left out.
ProtocolOptions options_of_name(std::string_view name) {
  const std::size_t colon = std::min(name.find(':'), name.size());
  ProtocolOptions options{.mode = std::string(name.substr(0, colon))};
  std::string_view rest = name.substr(colon);
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the colon, or a comma
    const std::string_view setting = rest.substr(0, rest.find(','));
    rest.remove_prefix(setting.size());
    options.each([&](std::string_view option, auto& value, const char*) {
      const std::string key = fmt::format("{}=", key_of(option));
      if (setting.starts_with(key)) set(value, setting.substr(key.size()));
    });
  }
  return options;
}

}  // namespace

Protocol Protocol::of_name(std::string_view name) {
  try {
    const Protocol protocol = protocol_of(options_of_name(name));
    if (protocol.name() == name) return protocol;
  } catch (const UsageError&) {  // speaks of options, where there is a row
  }
  throw DataError(fmt::format(
      "mode: expected a protocol as in stream, stream:every=10 or prefill:interval=never, found "
      "'{}'",
      name));
}

std::string Protocol::name() const {
  const ProtocolOptions own = options();
  std::vector<std::string> settings = settings_of(own);
  const std::vector<std::string> usual = settings_of({});
  std::erase_if(settings, [&](const std::string& setting) {
    return std::find(usual.begin(), usual.end(), setting) != usual.end();
  });
  return settings.empty() ? own.mode : fmt::format("{}:{}", own.mode, fmt::join(settings, ","));
}

ProtocolOptions Protocol::options() const {
  ProtocolOptions options{.mode = mode == Mode::stream ? "stream" : "prefill",
                          .eviction_interval = std::to_string(eviction_interval),
                          .page = paging.size,
                          .page_score = kPageScores[static_cast<std::size_t>(paging.score)],
                          .every = error_stride};
  if (evicts_once()) options.eviction_interval = kNever;
  if (reference == Reference::none) options.reference = "none";
  if (reference == Reference::sample) options.reference = fmt::format("{}{}", kSample, samples);
  return options;
}

int Protocol::most_held(int budget) const {
  const std::int64_t held = std::int64_t{budget} + eviction_interval - 1;
  return held < kNeverEvict ? static_cast<int>(held) : kNeverEvict;
}

Protocol protocol_of(const ProtocolOptions& options) {
  check_choice("--mode", options.mode, {"stream", "prefill"});
  Protocol protocol{.mode = options.mode == "stream" ? Mode::stream : Mode::prefill,
                    .eviction_interval = parse_interval(options.eviction_interval),
                    .paging = paging_of(options),
                    .error_stride = options.every};
  parse_reference(options.reference, protocol);
  if (options.every < 1) {
    throw UsageError(fmt::format("--every: expected 1 or more, found {}", options.every));
  }
  if (options.every > 1 && !protocol.has_reference()) {
    throw UsageError(fmt::format("--every {}: --reference {} {}; leave one of them out",
                                 options.every, options.reference,
                                 protocol.measures() ? "says at which steps errors are taken"
                                                     : "has no output error to take"));
  }
  return protocol;
}

void check_evicts_every_step(const Protocol& protocol, std::string_view why) {
  if (protocol.evicts_every_step()) return;
  throw UsageError(fmt::format("--eviction-interval: {}", why));
}

void check_evicts_by_token(const Protocol& protocol, std::string_view why) {
  if (protocol.paging.is_by_token()) return;
  throw UsageError(fmt::format("--page {}: {}", protocol.paging.size, why));
}

}  // namespace kvsim
