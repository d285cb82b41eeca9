#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/options.h"
#include "sim/cli/progress.h"
#include "sim/cli/session.h"
#include "sim/sweep/in_parallel.h"
#include "traces/output/partial_file.h"
#include "traces/synth/synth_options.h"

namespace kvsim::cli {
namespace {

po::options_description synth_flags(SynthOptions& synth) {
  po::options_description options("Options");
  options.add_options()("output,o", po::value<std::string>(), "the trace file to write")(
      "dtype", po::value<std::string>()->default_value("float16"), "float16 or float32")(
      "no-output", "leave the head outputs out, which takes most of the time")(
      "seed", po::value<std::int64_t>()->default_value(0), "the same seed gives the same bytes")(
      "quiet,q", "no progress");
  for (const SynthOption& option : synth_options()) {
    std::string name(option.name);
    std::replace(name.begin(), name.end(), '_', '-');
    const auto add = [&](auto field) {
      auto& value = synth.*field;
      using Field = std::remove_reference_t<decltype(value)>;
      options.add_options()(name.c_str(), po::value<Field>(&value)->default_value(value),
                            std::string(option.help).c_str());
    };
    std::visit(add, option.field);
  }
  options.add_options()("sink-logit", po::value<double>(),
                        "mean of learned sink logits, one per query head, which take attention and "
                        "give no value; none unless it is given");
  return options;
}

}  // namespace

int run_synth(const Verb& verb, const std::vector<std::string>& arguments) {
  SynthOptions synth;
  synth.threads = default_threads();
  const auto values = parse(verb, arguments, synth_flags(synth), {});
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
