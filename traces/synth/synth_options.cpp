#include "traces/synth/synth_options.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace kvsim {
namespace {

constexpr double kAny = std::numeric_limits<int>::max();
constexpr double kStrongest = 100;

constexpr SynthOption kOptions[] = {
    {"tokens", &SynthOptions::tokens, 1, kAny, "tokens of the sequence"},
    {"prompt_length", &SynthOptions::prompt_length, 0, kAny, "of these, the prompt; 0: none",
     &SynthOptions::tokens},
    {"layers", &SynthOptions::layers, 1, kAny, "layers"},
    {"query_heads", &SynthOptions::query_heads, 1, kAny, "query heads; a multiple of the KV heads"},
    {"kv_heads", &SynthOptions::kv_heads, 1, kAny, "KV heads"},
    {"head_dim", &SynthOptions::head_dim, 1, kAny, "size of a query and a key"},
    {"value_dim", &SynthOptions::value_dim, 0, kAny, "size of a value; 0: as a key"},
    {"hidden", &SynthOptions::hidden, 0, kAny,
     "width of an output projection and a residual stream; 0: neither"},
    {"gradient_samples", &SynthOptions::gradient_samples, 0, kAny, "samples of gradients; 0: none"},
    {"mlp_width", &SynthOptions::mlp_width, 0, kAny, "neurons of an MLP; 0: none"},
    {"rope_base", &SynthOptions::rope_base, 0, 1e9,
     "say that keys were rotated with this base, which positions=slot needs; 0: say nothing"},
    {"sinks", &SynthOptions::sinks, 0, kAny, "first tokens that every query attends to"},
    {"sink_strength", &SynthOptions::sink_strength, 0, kStrongest, "logit of a sink"},
    {"local_strength", &SynthOptions::local_strength, 0, kStrongest, "logit of the newest token"},
    {"local_decay", &SynthOptions::local_decay, 0, 1,
     "correlation of neighbouring tokens, in [0, 1)"},
    {"heavy_strength", &SynthOptions::heavy_strength, 0, kStrongest,
     "strength of the heavy hitters; 0: none"},
    {"heavy_exponent", &SynthOptions::heavy_exponent, 0.1, kStrongest,
     "exponent of the power law of their mass"},
    {"retrieval_share", &SynthOptions::retrieval_share, 0, 1,
     "share of query heads that look one period back"},
    {"retrieval_strength", &SynthOptions::retrieval_strength, 0, kStrongest,
     "logit of what they find there"},
    {"retrieval_period", &SynthOptions::retrieval_period, 0, kAny,
     "tokens until the text repeats; 0: a quarter", &SynthOptions::tokens},
    {"drift", &SynthOptions::drift, 0, kStrongest,
     "radians by which the heavy direction turns over the sequence"},
    {"noise", &SynthOptions::noise, 0, kStrongest, "standard deviation of the rest of a logit"},
    {"attention_chunk", &SynthOptions::attention_chunk, 0, kAny,
     "tokens of a chunk, outside of which no layer but every fourth attends; 0: none"},
    {"threads", &SynthOptions::threads, 1, kAny,
     "KV heads made at once; the bytes do not depend on it"},
};

[[noreturn]] void refuse(std::string_view option, const std::string& expected, double found) {
  throw std::invalid_argument(fmt::format("{}: expected {}, found {}", option, expected, found));
}

void check_integer(std::string_view option, int value, int lowest, int highest) {
  if (value >= lowest && value <= highest) return;
  refuse(option,
         highest == kAny ? fmt::format("an integer of at least {}", lowest)
                         : fmt::format("an integer in {}..{}", lowest, highest),
         value);
}

void check_number(std::string_view option, double value, double lowest, double highest) {
  if (value >= lowest && value <= highest) return;
  refuse(option, fmt::format("a number in [{}, {}]", lowest, highest), value);
}

void check(const SynthOption& option, const SynthOptions& options) {
  if (const auto* const integer = std::get_if<int SynthOptions::*>(&option.field)) {
    const int most =
        option.most == nullptr ? static_cast<int>(option.highest) : options.*option.most;
    check_integer(option.name, options.**integer, static_cast<int>(option.lowest), most);
  } else {
    check_number(option.name, options.*std::get<double SynthOptions::*>(option.field),
                 option.lowest, option.highest);
  }
}

}  // namespace

std::span<const SynthOption> synth_options() { return kOptions; }

void check_options(const SynthOptions& options) {
  for (const SynthOption& option : kOptions) check(option, options);
  if (options.query_heads % options.kv_heads != 0) {
    refuse("query_heads", fmt::format("a multiple of kv_heads = {}", options.kv_heads),
           options.query_heads);
  }
  if (options.rope_base != 0) check_number("rope_base", options.rope_base, 1, 1e9);
  if (options.local_decay == 1) refuse("local_decay", "a number in [0, 1)", 1);
  if (options.sink_logit) check_number("sink_logit", *options.sink_logit, -kStrongest, kStrongest);
}

}  // namespace kvsim
