#include "sim/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "oracle/oracles.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/base/printable.h"
#include "sim/cli/option_message.h"
#include "sim/cli/options.h"
#include "sim/cli/printable_errors.h"
#include "sim/cli/python_policies.h"
#include "sim/cli/verb.h"
#include "sim/plugin/load_plugin.h"
#include "sim/results/version.h"

namespace kvsim::cli {

std::span<const Verb> verbs() {
  static const std::vector<Verb> table{
      {"info", "TRACE", "what a trace holds", run_info},
      {"verify", "TRACE", "recompute attention and compare it with the recorded output",
       run_verify},
      {"synth", "-o FILE", "write a synthetic trace", run_synth},
      {"convert", "TRACE -o FILE | --from FILE... -o FILE",
       "bring a trace to the newest version of the format, or import a dump", run_convert},
      {"policies", "[NAME]", "list the policies, or explain one", run_policies},
      {"replay", "TRACE --policy SPEC --budget B", "replay one policy at one budget", run_replay},
      {"sweep", "TRACE... --policies SPEC;SPEC --budgets B,B -o RESULTS.sqlite",
       "replay policies times budgets and keep the results", run_sweep},
      {"curve", "TRACE... --policies SPEC;SPEC -o RESULTS.sqlite",
       "every budget at once, for policies whose caches nest", run_curve},
      {"fetch", "TRACE... --select SPEC;SPEC --resident R,R -o RESULTS.sqlite",
       "what a device that holds some of the pages fetches from the host", run_fetch},
      {"analyze", "TRACE... --what NAME,NAME -o RESULTS.sqlite",
       "measure what the papers measure of attention, keys and replays", run_analyze},
      {"labels", "TRACE -o FILE.npz|FILE.parquet", "write what learned policies train on",
       run_labels},
      {"cost", "--model NAME", "what a KV cache costs: bytes, largest batch, throughput", run_cost},
      {"compare", "RESULTS.sqlite A B...",
       "the difference between two policies of a result file, with its interval", run_compare},
      {"merge", "PART... -o RESULTS.sqlite", "join result files, as those of shards", run_merge},
      {"check", "FILE", "compare a result file or trace with the digests written with it",
       run_check},
      {"export", "RESULTS.sqlite [-o FILE]",
       "print a table of results as CSV or JSON, or write it as Parquet or Arrow", run_export},
      {"report", "RESULTS.sqlite -o DIR", "draw the comparison plots and one page that shows them",
       run_report},
      {"traces", "[get NAME | make NAME]", "list known traces, fetch one or make one", run_traces},
  };
  return table;
}

namespace {

struct PythonCommand {
  std::string_view name, summary;
};

/// The commands of the Python package that no verb runs: python -m kvsim.NAME.
constexpr PythonCommand kPythonCommands[] = {
    {"record", "record a trace from a model and texts"},
    {"evaluate", "what policies cost a model's predictions"},
    {"tune", "search the policy that loses least at a budget"},
    {"recipe", "write what tune found for another program"},
    {"train", "train the scorers of the policy learned"},
    {"second_reading", "the scores that the policy kvzip keeps tokens by"},
    {"head_budgets", "divide a budget over heads and layers"},
    {"tasks", "what policies cost a model's answers"},
    {"lm_eval", "tasks of lm-eval in a model that evicts"},
    {"reproduce", "a paper's own experiments, repeated in small"},
};

enum ExitStatus { kDone = 0, kFailure = 1, kBadUsage = 2, kBadData = 3 };

void print_help() {
  std::cout << "kvsim replays recorded attention through KV-cache eviction policies.\n\n"
               "usage: kvsim VERB ARGUMENTS      (kvsim VERB --help explains a verb)\n\n";
  for (const Verb& verb : verbs())
    std::cout << fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  std::cout << "\nCommands of the Python package (python -m kvsim.record --help explains one):\n\n";
  for (const PythonCommand& command : kPythonCommands) {
    std::cout << fmt::format("  python -m kvsim.{:<16}{}\n", command.name, command.summary);
  }
  std::cout << "\nkvsim --plugin FILE VERB ... loads policies and analyses compiled elsewhere; "
               "kvsim/plugin.h says how.\n"
               "\nExit status: 0 done, 2 bad usage, 3 bad input data, 1 anything else.\n";
}

/// Loads the plug-ins that are named before the verb, and moves them after it, where the verb has
/// that option, so that they are a part of the command.
std::vector<std::string> with_plugins(std::vector<std::string> words) {
  constexpr std::string_view kOption = "--plugin";
  std::vector<std::string> files;
  auto word = words.begin();
  for (; word != words.end() && word->starts_with(kOption); ++word) {
    if (word->size() > kOption.size() && (*word)[kOption.size()] != '=') break;
    const bool is_joined = word->size() > kOption.size();
    if (!is_joined && ++word == words.end()) throw UsageError("--plugin: expected a file");
    files.push_back(is_joined ? word->substr(kOption.size() + 1) : *word);
    load_plugin(files.back());
  }
  words.erase(words.begin(), word);
  const auto verb = std::find_if(verbs().begin(), verbs().end(), [&](const Verb& known) {
    return !words.empty() && words.front() == known.name;
  });
  if (files.empty() || verb == verbs().end()) return words;
  if (options_of(*verb).find_nothrow("plugin", false) == nullptr) return words;
  for (const std::string& file : files) {
    words.emplace_back(kOption);
    words.push_back(file);
  }
  return words;
}

int run(const std::vector<std::string>& given) {
  const std::vector<std::string> words = with_plugins(given);
  if (words.empty()) throw UsageError("expected a verb; kvsim --help lists them");
  const std::string& word = words.front();
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return kDone;
  }
  if (word == "--version") {
    std::cout << "kvsim " << version() << '\n';
    return kDone;
  }
  look_in_packages(words);
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) {
    if (word == verb.name) return verb.run(verb, {words.begin() + 1, words.end()});
    names.emplace_back(verb.name);
  }
  for (const PythonCommand& command : kPythonCommands) {
    if (word != command.name) continue;
    throw UsageError(fmt::format(
        "'{0}' is a command of the Python package: python -m kvsim.{0} (kvsim --help lists them)",
        word));
  }
  throw UsageError(fmt::format("unknown verb '{}'; did you mean '{}'? (kvsim --help lists them)",
                               word, nearest(word, names)));
}

int report(const std::exception& error, ExitStatus status) {
  std::cout.flush();
  std::cerr << "kvsim: error: " << error_line(error.what()) << std::endl;
  return status;
}

/// Past the stream and without a string, for which there may be no memory either.
void report_no_memory() {
  constexpr std::string_view kLine =
      "kvsim: error: out of memory; use fewer --threads or fewer budgets at once\n";
  static_cast<void>(!write(STDERR_FILENO, kLine.data(), kLine.size()));
}

std::atomic<bool> memory_ran_out = false;

[[noreturn]] void throw_without_memory() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

/// Destructors of libraries take memory, too, and functions of the standard library that promise
/// not to throw; where they get none, nothing can be caught, and some leave no current exception.
[[noreturn]] void end_without_memory() {
  bool has_no_memory = memory_ran_out && std::uncaught_exceptions() > 0;
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    has_no_memory = true;
  } catch (...) {
    has_no_memory = false;
  }
  if (!has_no_memory) std::abort();
  report_no_memory();
  _exit(kFailure);
}

}  // namespace

int run_program(int argc, char** argv) {
  std::set_terminate(end_without_memory);
  std::set_new_handler(throw_without_memory);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  const PrintableErrors printable_errors;
  try {
    add_oracles();
    const int status = run({argv + 1, argv + argc});
    if (!std::cout.flush()) throw std::runtime_error("cannot write to standard output");
    return status;
  } catch (const UsageError& error) {
    return report(error, kBadUsage);
  } catch (boost::program_options::error& error) {
    return report(UsageError(option_message(error)), kBadUsage);
  } catch (const DataError& error) {
    return report(error, kBadData);
  } catch (const std::bad_alloc&) {
    report_no_memory();
    return kFailure;
  } catch (const std::exception& error) {
    return report(error, kFailure);
  }
}

}  // namespace kvsim::cli
