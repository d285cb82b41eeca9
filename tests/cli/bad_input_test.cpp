// Every mistake ends in one line on standard error and the right exit status.

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::bad_input_test {

constexpr int kFailure = 1;
constexpr int kBadUsage = 2;
constexpr int kBadData = 3;

struct Mistake {
  std::vector<std::string> arguments;
  int status;
  std::string message;  // part of the line
};

void check(const std::filesystem::path& folder, const Mistake& mistake) {
  const Ended ended = run(folder, mistake.arguments);
  std::string command = "kvsim";
  for (const std::string& argument : mistake.arguments) command += " '" + argument + "'";
  INFO(command << "\n" << ended.err);
  CHECK(ended.status == mistake.status);
  CHECK(ended.out.empty());
  CHECK_THAT(ended.err, Catch::StartsWith("kvsim: error: ") && Catch::Contains(mistake.message));
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
}

std::vector<std::string> replay(std::vector<std::string> rest) {
  rest.insert(rest.begin(), {"replay", sample_trace(), "--quiet"});
  return rest;
}

TEST_CASE("cli: a mistake in the command line exits with 2 and says what is right") {
  const traces_test::TemporaryFolder folder;
  const std::string trace = sample_trace();
  const std::vector<Mistake> mistakes{
      {{"analyze", "t.h5"}, kBadUsage, "kvsim analyze --help explains it"},
      {{}, kBadUsage, "expected a verb"},
      {{"reply"}, kBadUsage, "did you mean 'replay'?"},
      {{"replay"}, kBadUsage, "expected a TRACE"},
      {{"info", trace, "second"}, kBadUsage, "found also 'second'"},
      {replay({"--policy", "h2o"}), kBadUsage, "expected --budget"},
      {replay({"--budget", "5%"}), kBadUsage, "expected --policy"},
      {replay({"--policy", "h2o", "--budget"}), kBadUsage, "--budget"},
      {replay({"--policy", "h20", "--budget", "5%"}), kBadUsage, "did you mean 'h2o'?"},
      {replay({"--policy", "h2o:recnt=3", "--budget", "5%"}), kBadUsage, "did you mean 'recent'?"},
      {replay({"--policy", "h2o:score=men", "--budget", "5%"}), kBadUsage, "did you mean 'mean'?"},
      {replay({"--policy", "sink:sinks=-1", "--budget", "5%"}), kBadUsage, "expected 0..1000000"},
      {replay({"--policy", "window:size=3", "--budget", "5%"}), kBadUsage, "has no parameters"},
      {replay({"--policy", "h2o:", "--budget", "5%"}), kBadUsage, "key=value"},
      {replay({"--policy", "h2o:preset=flexgn", "--budget", "5%"}), kBadUsage, "'flexgen'?"},
      {replay({"--policy", "h2o:preset=lm-eval-llama", "--budget", "5%"}), kBadUsage, "the future"},
      {replay({"--policy", "h2o+quant:bits=9", "--budget", "5%"}), kBadUsage, "expected 1..8"},
      {replay({"--policy", "h2o+qant", "--budget", "5%"}), kBadUsage, "did you mean 'quant'?"},
      {replay({"--policy", "h2o@pyramd", "--budget", "5%"}), kBadUsage, "did you mean 'pyramid'?"},
      {replay({"--policy", "schedule", "--budget", "5%"}), kBadUsage, "schedule:file=PATH"},
      {replay({"--policy", "h2o", "--budget", "5%", "--allocate", "pyramd"}), kBadUsage,
       "did you mean 'pyramid'?"},
      {replay({"--policy", "tova:scope=layer", "--budget", "5%", "--allocate", "adaptive"}),
       kBadUsage, "which here share one cache"},
      {replay({"--policy", "h2o", "--budget", "0"}), kBadUsage, "budget '0'"},
      {replay({"--policy", "h2o", "--budget", "1.5"}), kBadUsage, "budget '1.5'"},
      {replay({"--policy", "h2o", "--budget", "101%"}), kBadUsage, "budget '101%'"},
      {replay({"--policy", "h2o", "--budget", "many"}), kBadUsage, "budget 'many'"},
      {replay({"--policy", "h2o", "--budget", "99999999999"}), kBadUsage, "budget '99999999999'"},
      {replay({"--policy", "h2o", "--budget", "5%,9%"}), kBadUsage, "kvsim sweep"},
      {replay({"--polcy", "h2o"}), kBadUsage, "did you mean '--policy'?"},
      {replay({"--policy", "h2o", "--budget", "5%", "--layers", "9"}), kBadUsage, "0, 1, 2, 3"},
      {replay({"--policy", "h2o", "--budget", "5%", "--layers", "3-1"}), kBadUsage, "1-3"},
      {replay({"--policy", "h2o", "--budget", "5%", "--heads", "x"}), kBadUsage, "--heads"},
      {replay({"--policy", "h2o", "--budget", "5%", "--sequences", "held-out"}), kBadUsage,
       "did you mean 'held-out-text'?"},
      {replay({"--policy", "h2o", "--budget", "5%", "--threads", "0"}), kBadUsage, "--threads"},
      {replay({"--policy", "h2o", "--budget", "5%", "--threads", "two"}), kBadUsage, "'two'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--threads", "%value%"}), kBadUsage,
       "'%value%'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--seed", "-1"}), kBadUsage, "--seed"},
      {replay({"--policy", "h2o", "--budget", "5%", "--mode", "strem"}), kBadUsage, "'stream'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--format", "xml"}), kBadUsage, "--format"},
      {replay({"--policy", "h2o", "--budget", "5%", "--every", "0"}), kBadUsage, "1 or more"},
      {replay({"--policy", "h2o", "--budget", "5%", "--reference", "nil"}), kBadUsage, "full|none"},
      {replay({"--policy", "h2o", "--budget", "5%", "--reference", "none", "--every", "9"}),
       kBadUsage, "leave one of them out"},
      {replay({"--policy", "h2o", "--budget", "5%", "--reference", "sample"}), kBadUsage,
       "did you mean 'sample:N'?"},
      {replay({"--policy", "h2o", "--budget", "5%", "--reference", "sample:0"}), kBadUsage,
       "expected 1 step or more, found '0'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--reference", "sample:9", "--every", "9"}),
       kBadUsage, "says at which steps errors are taken; leave one of them out"},
      {replay({"--policy", "h2o", "--budget", "5%", "--reference", "sample:513"}), kBadUsage,
       "at most the 512 measured steps of sequence"},
      {replay({"--policy", "h2o+rest", "--budget", "5%", "--reference", "sample:9"}), kBadUsage,
       "--reference sample:9 cannot replay h2o"},
      {replay({"--policy", "topk", "--budget", "5%", "--reference", "none"}), kBadUsage,
       "--reference none cannot replay topk"},
      {replay({"--policy", "h2o", "--budget", "5%", "--eviction-interval", "0"}), kBadUsage,
       "expected 1..1000000 tokens or never, found '0'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--eviction-interval", "2x"}), kBadUsage,
       "found '2x'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--eviction-interval", "never"}), kBadUsage,
       "use --mode prefill"},
      {replay({"--policy", "h2o", "--budget", "100", "--page", "16"}), kBadUsage,
       "kvsim: error: budget 100: expected a multiple of --page 16 of at least 32 tokens; use 96"},
      {replay({"--policy", "h2o", "--budget", "20%", "--page", "0"}), kBadUsage,
       "kvsim: error: --page: expected 1..1000000 tokens, found 0"},
      {replay({"--policy", "lookahead", "--budget", "20%", "--page", "16"}), kBadUsage,
       "it plans token by token; leave one of them out"},
      {replay({"--policy", "h2o@adaptive", "--budget", "20%", "--page", "16"}), kBadUsage,
       "a split of the budget over heads does not come to whole pages"},
      {replay({"--policy", "topk+shared", "--budget", "20%"}), kBadUsage,
       "+shared cannot change topk:h2=0+shared:scores=mean: it evicts nothing, it selects"},
      {{"analyze", trace, "--what", "sparsity", "--page", "16", "-o", "r"},
       kBadUsage,
       "kvsim: error: --page 16: none of the analyses replays caches; leave it out"},
      {{"curve", trace, "--policies", "window", "--page", "0", "-o", "r"},
       kBadUsage,
       "kvsim: error: --page: expected 1..1000000 tokens, found 0"},
      {{"curve", trace, "--policies", "optimal:recent=4", "--page", "16", "-o", "r"},
       kBadUsage,
       "it plans token by token; leave one of them out"},
      {{"curve", trace, "--policies", "window", "--page", "16", "--output-error", "every:24", "-o",
        "r"},
       kBadUsage,
       "kvsim: error: --output-error: 'every:24' steps over parts of pages; use every:32"},
      {{"curve", trace, "--policies", "window", "--page", "16", "--output-error", "5%,100", "-o",
        "r"},
       kBadUsage,
       "kvsim: error: --output-error: budget 100: expected a multiple of --page 16"},
      {{"analyze", trace, "--what", "h2o-bound", "--policies", "h2o", "--budgets", "20%", "--page",
        "16", "-o", "r"},
       kBadUsage,
       "kvsim: error: --page 16: h2o-bound speaks of caches that evict one token at a time"},
      {replay({"--policy", "subgen", "--budget", "5%", "--eviction-interval", "8"}), kBadUsage,
       "cannot replay subgen"},
      {{"curve", trace, "--policies", "window", "--eviction-interval", "8", "-o", "r"},
       kBadUsage,
       "use kvsim sweep"},
      {{"analyze", trace, "--what", "evictions", "--policies", "lru", "--budgets", "9",
        "--eviction-interval", "8", "-o", "r"},
       kBadUsage,
       "use kvsim sweep"},
      {{"curve", trace, "--policies", "window", "--reference", "none", "-o", "r"},
       kBadUsage,
       "unknown option '--reference'"},
      {replay({"--policy", "h2o", "--budget", "5%", "--device", "gpu"}), kBadUsage, "--device"},
      {{"sweep", trace, "--policies", "h2o", "--budgets", "5%"}, kBadUsage, "--output"},
      {{"sweep", trace, "--policies", ";", "--budgets", "5%", "-o", "r"}, kBadUsage, "no policy"},
      {{"sweep", trace, "--policies", "h2o", "--budgets", "5%,", "-o", "r"}, kBadUsage, "empty"},
      {{"sweep", trace, "--policies", "h2o", "--budgets", "5%", "-o", ""}, kBadUsage, "name"},
      {{"synth", "-o", "x.h5", "--seed", "-1"}, kBadUsage, "--seed"},
      {{"policies", "tovo"}, kBadUsage, "did you mean 'tova'?"},
      {{"synth"}, kBadUsage, "--output"},
      {{"synth", "-o", "x.h5", "--tokens", "0"}, kBadUsage, "--tokens: expected"},
      {{"synth", "-o", "x.h5", "--query-heads", "3"},
       kBadUsage,
       "--query-heads: expected a multiple"},
      {{"synth", "-o", "x.h5", "--noise", "loud"}, kBadUsage, "'loud'"},
  };
  for (const Mistake& mistake : mistakes) check(folder.path(), mistake);
}

TEST_CASE("cli: input that cannot be used exits with 3 and names the file") {
  const traces_test::TemporaryFolder folder;
  std::ofstream(folder.path() / "notes.txt")
      << "not HDF5, not SQLite, but long enough to look at\n";
  std::filesystem::copy(sample_trace(), folder.path() / "cut.h5");
  std::filesystem::resize_file(folder.path() / "cut.h5", 100'000);
  std::ofstream(folder.path() / "empty.h5");
  const std::vector<Mistake> mistakes{
      {{"info", "missing.h5"}, kBadData, "missing.h5"},
      {{"info", "notes.txt"}, kBadData, "notes.txt"},
      {{"info", "empty.h5"}, kBadData, "empty.h5"},
      {{"info", "."}, kBadData, "directory"},
      {{"verify", "cut.h5"}, kBadData, "cut.h5"},
      {{"replay", "cut.h5", "--policy", "h2o", "--budget", "5%"}, kBadData, "truncated"},
      {{"sweep", "cut.h5", "--policies", "window", "--budgets", "5%", "-o", "r.sqlite"},
       kBadData,
       "cut.h5"},
      {{"sweep", sample_trace(), "--policies", "window", "--budgets", "5%", "-o", "notes.txt"},
       kBadData,
       "notes.txt"},
      {{"export", "missing.sqlite"}, kBadData, "missing.sqlite"},
      {{"export", "notes.txt"}, kBadData, "notes.txt"},
  };
  for (const Mistake& mistake : mistakes) check(folder.path(), mistake);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "r.sqlite"));
}

TEST_CASE("cli: a name that cannot be followed exits with 3, or 2 if it is an option's") {
  const traces_test::TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  std::ofstream(folder.path() / "file") << "text";
  REQUIRE(mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  struct Name {
    std::string name;
    std::string found;
  };
  const std::string cut = "no file that can be read";
  const std::vector<Name> names{{std::string(300, 'n'), cut},
                                {"loop", cut},
                                {"file/below", "no such file"},
                                {"", "no such file"},
                                {"fifo", "no regular file"}};
  for (const auto& [name, found] : names) {
    const std::string of_schedule = name.empty() ? "nowhere" : name;
    const bool is_file = !name.empty();
    check(folder.path(), {{"info", name}, kBadData, found});
    check(folder.path(), {{"check", name}, kBadData, found});
    check(folder.path(), {replay({"--policy", "schedule:file=" + of_schedule, "--budget", "5%"}),
                          kBadData, found});
    check(folder.path(), {replay({"--policy", "lru", "--budget", "5%", "--plugin", name}), kBadData,
                          "expected a plug-in"});
    const int of_results = is_file ? kBadData : kBadUsage;
    const std::string said = is_file ? found : "needs a name";
    check(folder.path(), {{"export", name}, of_results, said});
    check(folder.path(), {{"merge", name, "-o", "all"}, of_results, said});
    check(folder.path(), {{"report", name, "-o", "out"}, of_results, said});
    if (name == "fifo") continue;  // a shell's <(...) is one
    check(folder.path(), {{"info", "--config", name}, kBadUsage, "--config"});
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "all"));
}

TEST_CASE("cli: what cannot be written exits with 1 and names the file") {
  const traces_test::TemporaryFolder folder;
  const std::vector<Mistake> mistakes{
      {replay({"--policy", "h2o", "--budget", "5%", "--per-step", "no/such/steps.h5"}), kFailure,
       "no/such/steps.h5"},
      {{"sweep", sample_trace(), "--policies", "window", "--budgets", "5%", "-o",
        "no/such/r.sqlite"},
       kFailure,
       "its folder does not exist: make it first"},
      {{"sweep", sample_trace(), "--policies", "window", "--budgets", "5%", "-o", folder.path()},
       kFailure,
       "it is a folder: name a file in it"},
      {{"sweep", sample_trace(), "--policies", "window", "--budgets", "5%", "-o",
        "/dev/null/r.sqlite"},
       kFailure,
       "/dev/null is no folder"},
      {{"synth", "-o", "no/such/t.h5"}, kFailure, "no/such/t.h5"},
      {{"synth", "-o", "/dev/null"}, kFailure, "/dev/null"},
      {{"synth", "-o", "."}, kFailure, "something else"},
      {{"synth", "-o", std::string(300, 'n')}, kFailure, "File name too long"},
      {{"sweep", sample_trace(), "--policies", "window", "--budgets", "5%", "-o",
        std::string(300, 'n')},
       kFailure,
       "unable to open"},
      {{"synth", "-o", ""}, kBadUsage, "needs a name"},
      {replay({"--policy", "h2o", "--budget", "5%", "--per-step", ""}), kBadUsage, "needs a name"},
  };
  for (const Mistake& mistake : mistakes) check(folder.path(), mistake);
}

TEST_CASE("cli: a device that is not there is said before a file is begun") {
  const traces_test::TemporaryFolder folder;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string before = visible == nullptr ? "" : visible;
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const std::vector<std::string> common{sample_trace(), "-o", "r.sqlite", "--device", "cuda"};
  const std::vector<std::vector<std::string>> runs{
      {"sweep", "--policies", "h2o", "--budgets", "5%"},
      {"curve", "--policies", "window"},
      {"analyze", "--what", "sparsity"},
  };
  for (std::vector<std::string> run : runs) {
    run.insert(run.end(), common.begin(), common.end());
    check(folder.path(), {run, kFailure, "use --device cpu"});
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "r.sqlite"));
  visible == nullptr ? unsetenv("CUDA_VISIBLE_DEVICES")
                     : setenv("CUDA_VISIBLE_DEVICES", before.c_str(), 1);
}

}  // namespace kvsim::cli_test::bad_input_test
