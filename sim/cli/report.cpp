#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "sim/cli/options.h"
#include "sim/core/store.h"

namespace kvsim::cli {
namespace {

/// Runs a command and returns its exit status; a signal counts as failure.
int run(const std::vector<std::string>& command) {
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

/// The interpreter that has the package, which the environment may name.
std::string python() {
  const char* named = std::getenv("KVSIM_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

void check_package(const std::string& interpreter) {
  const char* const kLooks =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('kvsim') is None)";
  if (run({interpreter, "-c", kLooks}) == 0) return;
  throw std::runtime_error(fmt::format(
      "{} has no package kvsim, which draws the report; in the source folder: {} -m pip install "
      "./python (KVSIM_PYTHON names another interpreter)",
      interpreter, interpreter));
}

}  // namespace

int run_report(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options("Options");
  options.add_options()("output,o", po::value<std::string>(),
                        "the folder for figures and index.html");
  const auto values = parse(verb, arguments, options, {"RESULTS.sqlite"});
  if (!values) return 0;
  const std::string file = word_from(verb, *values, "RESULTS.sqlite");
  const std::string folder = required_from(verb, *values, "output");
  const ResultStore store(file, ResultStore::Access::read);  // says what is wrong with it
  check_package(python());
  return run({python(), "-m", "kvsim.report", file, "-o", folder});
}

}  // namespace kvsim::cli
