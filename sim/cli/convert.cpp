#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "sim/base/errors.h"
#include "sim/base/printable.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/options.h"
#include "sim/cli/progress.h"
#include "sim/cli/python_package.h"
#include "sim/replay/replay.h"
#include "traces/integrity/convert_trace.h"

namespace kvsim::cli {
namespace {

/// The options of kvsim.imports, which checks their values.
po::options_description dump_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options(
      "Options of a dump, with --from. An error that asks for names={'query': ...} means --name "
      "query=...");
  options.add_options()("from", po::value<std::vector<std::string>>()->multitoken(),
                        "files .npz, .safetensors or .pt of queries, keys and values, or folders "
                        "of them, in place of TRACE")(
      "layout", word(), "of all but outputs, as in bhtd, or by dataset: query=bthd,key=bhtd")(
      "name", po::value<std::vector<std::string>>(),
      "DATASET=NAME of its arrays, as in query=block.{layer}.q; again for each dataset")(
      "num-query-heads", word(), "of the model")("num-kv-heads", word(), "of the model")(
      "head-dim", word(), "of queries and keys")("repeated", word(),
                                                 "keys repeated over query heads: undo, or keep")(
      "dtype", word(), "what 16 bits without a type are: bfloat16")(
      "attention-mask", word(), "a file .npy [batch, tokens]: 0 for padding")(
      "token-ids", word(), "a file .npy [batch, tokens]")(
      "sequence-names", word(), "of the members of the batch, separated by commas")(
      "prompt-length", word(), "tokens, of all members or of each, separated by commas")(
      "scale", word(), "of logits; 1 / sqrt(head_dim) where none is given")(
      "logit-softcap", word(), "logits become cap * tanh(logit / cap)")(
      "sliding-window", word(), "tokens, of all layers or by layer: 0=128,2=128")(
      "rope", word(), "a JSON file of inv_freq, style and attention_factor")(
      "rotate", "queries and keys were dumped before rotation: --rope rotates them")(
      "num-layers", word(), "of the model")("model", word(), "its name")(
      "no-verify", "do not compare attention with the outputs");
  return options;
}

void check_no_dump(const po::variables_map& values) {
  const po::options_description options = dump_options();
  for (const auto& option : options.options()) {
    if (values.count(option->long_name()) > 0) {
      throw UsageError(fmt::format("--{}: expected --from FILE... as well: it is of a dump",
                                   option->long_name()));
    }
  }
}

void check_output(const std::string& trace, const std::string& file) {
  if (file.empty()) throw UsageError("--output: the trace file needs a name");
  std::error_code not_there;
  if (std::filesystem::equivalent(trace, file, not_there)) {
    throw UsageError(fmt::format("--output: {} is the trace itself; name another file", file));
  }
}

}  // namespace

int run_convert(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options(
      "Writes a trace of an earlier version of the format, or of another program, in the newest\n"
      "version, whose digests tell damage: the same numbers, types and gaps. What was its "
      "trace_id\n"
      "is then its trace_id_v1. With --from, makes a trace of queries, keys and values that hooks\n"
      "dumped: what names and shapes leave open is an error that says what decides.\n\n"
      "Options");
  options.add_options()("output,o", po::value<std::string>(), "the trace file to write")(
      "quiet,q", "no progress, no notes");
  options.add(dump_options());
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;
  if (values->count("from") > 0) {
    if (values->count("TRACE") > 0) {
      throw UsageError(fmt::format("expected no TRACE with --from, found {}",
                                   positional_from(verb, *values, "TRACE")));
    }
    required_from(verb, *values, "output");
    run_in_python("kvsim.imports", "imports dumps", words_of(arguments, *values, "from"));
  }
  check_no_dump(*values);
  const std::string from = positional_from(verb, *values, "TRACE");
  const std::string file = required_from(verb, *values, "output");
  check_output(from, file);
  const std::atomic<bool>& interrupted = catch_interrupts();
  constexpr std::size_t kWhole = 100;
  LeftOut left_out;
  {
    const Trace trace(from);
    Progress progress(kWhole, "percent", *values);
    left_out = convert_trace(trace, file, [&](std::size_t done, std::size_t total) {
      if (interrupted) throw Interrupted(fmt::format("interrupted; {} is not written", file));
      progress.set(kWhole * done / total);
    });
  }
  if (!left_out.empty() && values->count("quiet") == 0) {
    std::cerr << fmt::format("kvsim: left out, as the format does not know it: {}\n",
                             fmt::join(left_out, ", "));
  }
  const Trace written(file);
  std::cout << fmt::format("{}: version {}, trace_id {}\n", printable(file),
                           written.header().version, written.id());
  return 0;
}

}  // namespace kvsim::cli
