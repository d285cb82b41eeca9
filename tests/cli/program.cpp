#include "tests/cli/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/support/build_tree.h"

namespace kvsim::cli_test {
namespace {

/// What a file holds; nothing of a device, which may never end.
std::string read(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return "";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void redirect(const char* file, int descriptor) {
  dup2(open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600), descriptor);
}

}  // namespace

int start(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int process = fork();
  if (process != 0) return process;
  if (chdir(folder.c_str()) != 0) _exit(127);
  redirect("out", STDOUT_FILENO);
  redirect("err", STDERR_FILENO);
  execv(pointers[0], pointers.data());
  _exit(127);
}

Ended wait(const std::filesystem::path& folder, int process) {
  int state = 0;
  rusage usage{};
  wait4(process, &state, 0, &usage);
  const int status = WIFSIGNALED(state) ? -WTERMSIG(state) : WEXITSTATUS(state);
  constexpr double kKibPerMib = 1024;
  return {status, read(folder / "out"), read(folder / "err"),
          static_cast<double>(usage.ru_maxrss) / kKibPerMib};
}

Ended run(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  return wait(folder, start(folder, arguments));
}

std::string program() { return test_support::build_tree() / "kvsim"; }

std::string sample_trace() { return KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5"; }

}  // namespace kvsim::cli_test
