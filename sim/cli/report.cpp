#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "sim/cli/options.h"
#include "sim/results/store.h"
#include "sim/results/version.h"

namespace kvsim::cli {
namespace {

/// Runs a command and returns its exit status; a signal counts as failure.
int run_python(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t process = 0;
  if (const int error = posix_spawnp(&process, words[0], nullptr, nullptr, words.data(), environ)) {
    throw std::runtime_error(fmt::format("{}: {}; the report is drawn by Python", command.front(),
                                         std::generic_category().message(error)));
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// The Python interpreter: KVSIM_PYTHON; else the one beside the program, where pip puts both; else
/// python3 on the PATH.
std::string python() {
  const char* named = std::getenv("KVSIM_PYTHON");
  if (named != nullptr && *named != '\0') return named;
  std::error_code unknown;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe", unknown).replace_filename("python3");
  return std::filesystem::exists(beside, unknown) ? beside.string() : "python3";
}

void check_package(const std::string& interpreter) {
  // Python imports any folder named kvsim as a package: look for a module inside.
  const char* const kLooks =
      "import sys\n"
      "try:\n"
      "  from importlib.util import find_spec\n"
      "  sys.exit(find_spec('kvsim.report.__main__') is None)\n"
      "except ImportError:\n"
      "  sys.exit(1)\n";
  if (run_python({interpreter, "-c", kLooks}) == 0) return;
  throw std::runtime_error(fmt::format(
      "{} cannot import kvsim.report, which draws the report; in the source folder: {} -m pip "
      "install . (KVSIM_PYTHON names another interpreter)",
      interpreter, interpreter));
}

/// The options of kvsim.report, which checks their values.
po::options_description report_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options("Options");
  options.add_options()("output,o", word(), "the folder for figures and index.html")(
      "trace-id", word(), "the trace to show; its first characters are enough")(
      "sequence", po::value<std::vector<std::string>>(),
      "a sequence to show, again for each; all where none is named")(
      "mode", word(), "as rows name it: stream, stream:every=10, prefill:interval=never")(
      "seed", word(), "of random choices")(
      "budget", word(), "of maps and table, as in 20% or 102; the largest where none is named")(
      "policies", word(),
      "those to show, separated by ';': names, labels, or names with some of their parameters as "
      "in 'h2o:recent=0.25'; all: draw all; where "
      "none is named, the table has all and the figures at most ten")(
      "layer", word(), "of the attention map")("query-head", word(), "of the attention map")(
      "trace", word(), "where the trace is now")("quiet", "show no progress");
  return options;
}

/// The arguments with those of the file of --config, which kvsim.report does not read.
std::vector<std::string> all_arguments(const std::string& file, const po::variables_map& values) {
  std::vector<std::string> words{file};
  for (const auto& [name, value] : values) {
    if (name == "config" || name == "RESULTS.sqlite") continue;
    const std::string option = "--" + name;
    if (value.empty() || value.value().empty()) {
      words.push_back(option);
    } else if (const auto* several = boost::any_cast<std::vector<std::string>>(&value.value())) {
      for (const std::string& word : *several) words.insert(words.end(), {option, word});
    } else {
      words.insert(words.end(), {option, value.as<std::string>()});
    }
  }
  return words;
}

}  // namespace

int run_report(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, report_options(), {"RESULTS.sqlite"});
  if (!values) return 0;
  const std::string file = positional_from(verb, *values, "RESULTS.sqlite");
  required_from(verb, *values, "output");
  const ResultStore store(file, ResultStore::Access::read);  // throws if it is no result file
  check_package(python());
  const std::vector<std::string> words =
      values->count("config") == 0 ? arguments : all_arguments(file, *values);
  std::vector<std::string> command = {python(), "-m", "kvsim.report"};
  command.insert(command.end(), words.begin(), words.end());
  setenv("KVSIM_VERSION", version().c_str(), 1);  // the page names the revision that drew it
  return run_python(command);
}

}  // namespace kvsim::cli
