#include <iostream>

#include "sim/cli/options.h"
#include "sim/cli/python_package.h"
#include "traces/trace.h"

namespace kvsim::cli {
namespace {

/// The options of kvsim.labels, which checks their values.
po::options_description label_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options("Options");
  options.add_options()("output,o", word(),
                        "a file .npz (arrays) or .parquet (a row per unit, token and budget; needs "
                        "pyarrow); replaces earlier labels")(
      "budgets", po::value<std::vector<std::string>>(),
      "at which to label what optimal does: 5%,0.2,256,32..128:32, or the option again; without "
      "it, only labels of the attention")(
      "block", word(), "measured steps of a block of future attention; 256 where none is given")(
      "sequences", word(), "names, separated by commas")("layers", word(), "layers, as in 0-3,7")(
      "heads", word(), "KV heads, as in 0,2; each with its query heads")(
      "mode", word(), "stream, or prefill: only steps after the prompt count")(
      "eviction-interval", word(), "K or never, as for kvsim sweep; slot prices are then NaN")(
      "threads", word(), "units worked on at once; labels do not depend on it")(
      "quiet,q", "neither note nor progress");
  return options;
}

void explain_labels(std::ostream& out) {
  out << "\nLabels of a KV head, with n tokens; a[s,j] is its full attention, the mean over its "
         "query heads,\nand the later steps of token j are the measured steps s > j:\n"
         "  future_attention [n]           a[s,j] summed over the later steps\n"
         "  future_attention_blocks [K,n]  its mean over the steps of each block; steps up to j "
         "count as 0\n"
         "  optimal_evicted_after [B,n]    per budget, the step after which `optimal` evicts j; n: "
         "never\n"
         "  next_access [n]                the first later step with a[s,j] > 1/(s+1); n: never\n"
         "  slot_price [B,n]               per budget and step, what one more slot from this step "
         "to the next is\n"
         "                                 worth at most; 0 while the cache is not full\n"
         "\nAn .npz file names them SEQUENCE/LAYER/KV_HEAD/future_attention, and holds "
         "SEQUENCE/budgets [B] in\ntokens and, if all sequences have the same, budgets. "
         "oracle/labels/README.md says which paper trains\non which.\n";
}

}  // namespace

int run_labels(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, label_options(), {"TRACE"});
  if (!values) {
    explain_labels(std::cout);
    return 0;
  }
  required_from(verb, *values, "output");
  { const Trace trace(positional_from(verb, *values, "TRACE")); }  // throws if it is no trace
  run_in_python("kvsim.labels", "makes labels", words_of(arguments, *values, "TRACE"));
}

}  // namespace kvsim::cli
