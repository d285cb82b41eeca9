#include "sim/cli/python_package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

std::string output_of_python(const std::string& code, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {interpreter_path(), "-c", code};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const std::vector<char*> words = argument_pointers(command);
  pid_t process = 0;
  const int error = posix_spawnp(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  std::array<char, 4096> part{};
  while (error == 0) {
    const ssize_t count = read(ends[0], part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    output.append(part.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  if (error != 0) return "";
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output : "";
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
