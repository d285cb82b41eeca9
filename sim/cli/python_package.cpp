#include "sim/cli/python_package.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include "sim/results/version.h"

namespace kvsim::cli {
namespace {

std::vector<char*> argument_pointers(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return words;
}

[[noreturn]] void fail_to_start(const std::string& interpreter, int error,
                                const std::string& purpose) {
  throw std::runtime_error(fmt::format("{}: {}; Python {}", interpreter,
                                       std::generic_category().message(error), purpose));
}

std::string interpreter_path() {
  const char* named = std::getenv("KVSIM_PYTHON");
  if (named != nullptr && *named != '\0') return named;
  std::error_code unknown;
  const auto sibling =
      std::filesystem::read_symlink("/proc/self/exe", unknown).replace_filename("python3");
  return std::filesystem::exists(sibling, unknown) ? sibling.string() : "python3";
}

void check_module(const std::string& interpreter, const std::string& module,
                  const std::string& purpose) {
  // Python imports any folder named kvsim as a package: look for a module inside.
  const std::string looks = fmt::format(
      "import sys\n"
      "try:\n"
      "  from importlib.util import find_spec\n"
      "  sys.exit(find_spec('{}.__main__') is None)\n"
      "except ImportError:\n"
      "  sys.exit(1)\n",
      module);
  const std::vector<std::string> command = {interpreter, "-c", looks};
  pid_t process = 0;
  const std::vector<char*> words = argument_pointers(command);
  if (const int error = posix_spawnp(&process, words[0], nullptr, nullptr, words.data(), environ)) {
    fail_to_start(interpreter, error, purpose);
  }
  int status = 0;
  waitpid(process, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw std::runtime_error(
      fmt::format("{} cannot import {}, which {}; install kvsim for it: {} -m pip install WHEEL, "
                  "or in the source "
                  "folder pip install . (KVSIM_PYTHON names another interpreter)",
                  interpreter, module, purpose, interpreter));
}

}  // namespace

void run_in_python(const std::string& module, const std::string& purpose,
                   const std::vector<std::string>& arguments) {
  const std::string interpreter = interpreter_path();
  check_module(interpreter, module, purpose);
  std::vector<std::string> command = {interpreter, "-m", module};
  command.insert(command.end(), arguments.begin(), arguments.end());
  setenv("KVSIM_VERSION", version().c_str(), 1);  // a report names the revision that drew it
  std::cout.flush();
  const std::vector<char*> words = argument_pointers(command);
  execvp(words[0], words.data());
  fail_to_start(interpreter, errno, purpose);
}

std::vector<std::string> words_of(const std::vector<std::string>& arguments,
                                  const po::variables_map& values, const std::string& positional) {
  if (values.count("config") == 0) return arguments;
  std::vector<std::string> words = values[positional].as<std::vector<std::string>>();
  for (const auto& [name, value] : values) {
    if (name == "config" || name == positional) continue;
    const std::string option = "--" + name;
    if (const auto* several = boost::any_cast<std::vector<std::string>>(&value.value())) {
      for (const std::string& word : *several) words.insert(words.end(), {option, word});
      continue;
    }
    words.push_back(option);
    // The value of an option without one is empty.
    const auto* word = boost::any_cast<std::string>(&value.value());
    if (word != nullptr && !word->empty()) words.push_back(*word);
  }
  return words;
}

}  // namespace kvsim::cli
