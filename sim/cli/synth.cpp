#include "traces/synth/synth.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/options.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/sweep/in_parallel.h"
#include "traces/output/partial_file.h"

namespace kvsim::cli {
namespace {

po::options_description synth_options(SynthOptions& synth) {
  po::options_description options("Options");
  const auto add = [&](const char* name, auto& field, const char* help) {
    using Field = std::remove_reference_t<decltype(field)>;
    options.add_options()(name, po::value<Field>(&field)->default_value(field), help);
  };
  options.add_options()("output,o", po::value<std::string>(), "the trace file to write")(
      "dtype", po::value<std::string>()->default_value("float16"), "float16 or float32")(
      "no-output", "leave the head outputs out, which takes most of the time");
  add("tokens", synth.tokens, "tokens of the sequence");
  add("prompt-length", synth.prompt_length, "of these, the prompt; 0: none");
  add("layers", synth.layers, "layers");
  add("query-heads", synth.query_heads, "query heads; a multiple of the KV heads");
  add("kv-heads", synth.kv_heads, "KV heads");
  add("head-dim", synth.head_dim, "size of a query and a key");
  add("value-dim", synth.value_dim, "size of a value; 0: as a key");
  add("hidden", synth.hidden, "width of an output projection and a residual stream; 0: neither");
  add("gradient-samples", synth.gradient_samples, "samples of gradients; 0: none");
  add("mlp-width", synth.mlp_width, "neurons of an MLP; 0: none");
  add("rope-base", synth.rope_base,
      "say that keys were rotated with this base, which positions=slot needs; 0: say nothing");
  options.add_options()("seed", po::value<std::int64_t>()->default_value(0),
                        "the same seed gives the same bytes")("quiet,q", "no progress");
  add("sinks", synth.sinks, "first tokens that every query attends to");
  add("sink-strength", synth.sink_strength, "logit of a sink");
  add("local-strength", synth.local_strength, "logit of the newest token");
  add("local-decay", synth.local_decay, "correlation of neighbouring tokens, in [0, 1)");
  add("heavy-strength", synth.heavy_strength, "strength of the heavy hitters; 0: none");
  add("heavy-exponent", synth.heavy_exponent, "exponent of the power law of their mass");
  add("retrieval-share", synth.retrieval_share, "share of query heads that look one period back");
  add("retrieval-strength", synth.retrieval_strength, "logit of what they find there");
  add("retrieval-period", synth.retrieval_period, "tokens until the text repeats; 0: a quarter");
  add("drift", synth.drift, "radians by which the heavy direction turns over the sequence");
  add("noise", synth.noise, "standard deviation of the rest of a logit");
  options.add_options()("sink-logit", po::value<double>(),
                        "mean of learned sink logits, one per query head, which take attention and "
                        "give no value; none unless it is given");
  add("attention-chunk", synth.attention_chunk,
      "tokens of a chunk, outside of which no layer but every fourth attends; 0: none");
  add("threads", synth.threads, "KV heads made at once; the bytes do not depend on it");
  return options;
}

}  // namespace

int run_synth(const Verb& verb, const std::vector<std::string>& arguments) {
  SynthOptions synth;
  synth.threads = default_threads();
  const auto values = parse(verb, arguments, synth_options(synth), {});
  if (!values) return 0;
  const std::string file = required_from(verb, *values, "output");
  if (file.empty()) throw UsageError("--output: the trace file needs a name");
  const bool is_half = choice_from(*values, "dtype", {"float16", "float32"}) == "float16";
  synth.elements = is_half ? ElementType::float16 : ElementType::float32;
  synth.seed = static_cast<std::uint64_t>(checked_seed((*values)["seed"].as<std::int64_t>()));
  if (values->count("sink-logit") > 0) synth.sink_logit = (*values)["sink-logit"].as<double>();
  synth.output = values->count("no-output") == 0;
  const std::atomic<bool>& interrupted = catch_interrupts();
  constexpr std::size_t kWhole = 100;
  try {
    { const PartialFile refused_if_unwritable(file); }  // before anything is announced
    print_notes(
        {fmt::format("{} of {}; {}", counted(static_cast<std::size_t>(synth.layers), "layer"),
                     counted(static_cast<std::size_t>(synth.tokens), "token"),
                     memory_note(synth_memory(synth), synth.threads))},
        *values);
    Progress progress(kWhole, "percent", *values);
    synthesize(file, synth, [&](double share) {
      if (interrupted) throw Interrupted(fmt::format("interrupted; {} is not written", file));
      progress.set(static_cast<std::size_t>(share * kWhole));
    });
  } catch (const std::invalid_argument& error) {
    // The message starts with the name of a member: the option's name with '_' for '-'.
    std::string message = error.what();
    std::replace(message.begin(), message.begin() + message.find(':'), '_', '-');
    throw UsageError("--" + message);
  }
  return 0;
}

}  // namespace kvsim::cli
