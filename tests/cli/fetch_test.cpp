#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::fetch_test {

using Catch::Contains;
using Catch::StartsWith;
using traces_test::TemporaryFolder;

std::vector<std::string> fetch(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"fetch", sample_trace(), "--layers", "1", "--heads", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string exported(const TemporaryFolder& folder) {
  return run(folder.path(),
             {"export", "r.sqlite", "--table", "fetch", "--without", "run_id", "--format", "csv"})
      .out;
}

std::int64_t num_lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST_CASE("cli: fetch writes a row for every selector, size and replacement, and prints means") {
  const TemporaryFolder folder;
  const Ended ended = run(folder.path(), fetch({"--select", "topk:k=32;quest:k=32", "--resident",
                                                "25%,256", "--replace", "all", "-o", "r.sqlite"}));
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, StartsWith("means over 2 units\n\n") && Contains("\ntopk:k=32,page=1 ") &&
                            Contains("hit rate") && Contains(" belady "));
  CHECK_THAT(ended.err, Contains("2 selectors on 2 units") && Contains("MiB"));
  const std::string rows = exported(folder);
  CHECK(num_lines(rows) == 1 + 2 * 2 * 2 * 6);
  CHECK_THAT(rows, StartsWith("trace_id,sequence,layer,kv_head,select,resident,replace,mode,seed,"
                              "steps,accesses,hits,misses,hit_rate,fetched_bytes_mean,"
                              "fetched_bytes_p95,fetched_bytes_max,summary_bytes,attended_mean,"
                              "attention_recall,output_error_sq,topk_overlap,step_overlap,trace,"
                              "resident_request,device,kvsim_version,policy_code\n"));
  CHECK_THAT(rows, Contains("\"quest:k=32,page=16\",128,mass,stream,0,512,"));
  CHECK(run(folder.path(), {"check", "r.sqlite"}).status == 0);
}

TEST_CASE(
    "cli: a curve of fetch has a row for every size, and both tables do not depend on threads") {
  const TemporaryFolder folder;
  const auto with_threads = [&](const char* threads) {
    std::string printed;
    for (const std::vector<std::string>& sizes :
         {std::vector<std::string>{"--curve"},
          {"--resident", "20%..80%:20%", "--replace", "all"}}) {
      auto arguments = fetch({"--select", "quest:k=40;sparq:k=48,rank=4", "--page", "8", "--mode",
                              "prefill", "-o", "r.sqlite", "-q", "--threads", threads});
      arguments.insert(arguments.end(), sizes.begin(), sizes.end());
      const Ended ended = run(folder.path(), arguments);
      INFO(ended.err);
      CHECK(ended.status == 0);
      CHECK(ended.err.empty());
      printed += ended.out;
    }
    return printed + exported(folder);
  };
  const std::string one = with_threads("1");
  // From 48 and 56 tokens to 512 in pages of 8, and 4 more replacements at 4 sizes.
  CHECK(num_lines(one.substr(one.find("trace_id,"))) == 1 + 2 * (59 + 58) * 2 + 2 * 2 * 4 * 4);
  CHECK(with_threads("2") == one);
}

TEST_CASE("cli: fetch ends bad input with one line and the right status") {
  const TemporaryFolder folder;
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"--resident", "9", "-o", "r.sqlite"}, 2, "expected --select"},
      {{"--select", "topk", "-o", "r.sqlite"}, 2, "either --resident or --curve"},
      {{"--select", "topk", "--resident", "99", "--curve", "-o", "r.sqlite"}, 2, "either"},
      {{"--select", "topk", "--resident", "99"}, 2, "expected --output"},
      {{"--select", ";", "--resident", "99", "-o", "r.sqlite"}, 2, "no selector"},
      {{"--select", "qest", "--resident", "99", "-o", "r.sqlite"}, 2, "did you mean 'quest'?"},
      {{"--select", "topk:k=0", "--resident", "99", "-o", "r.sqlite"}, 2, "k='0'"},
      {{"--select", "topk", "--page", "0", "--resident", "9", "-o", "r.sqlite"}, 2, "--page"},
      {{"--select", "topk", "--resident", "64", "-o", "r.sqlite"}, 2, "expected at least 65"},
      {{"--select", "quest", "--resident", "90", "-o", "r.sqlite"}, 2, "write 96"},
      {{"--select", "quest", "--resident", "0", "-o", "r.sqlite"}, 2, "expected at least 80"},
      {{"--select", "topk", "--resident", "5%,", "-o", "r.sqlite"}, 2, "is empty"},
      {{"--select", "topk", "--resident", "x", "-o", "r.sqlite"}, 2, "--resident"},
      {{"--select", "top-p:p=1", "--resident", "99", "-o", "r.sqlite"}, 2, "at least 512"},
      {{"--select", "topk", "--replace", "lur", "--resident", "99", "-o", "r.sqlite"}, 2, "'lru'?"},
      {{"--select", "topk", "--replace", "fifo", "--curve", "-o", "r.sqlite"}, 2, "found fifo"},
      {{"--select", "topk", "--curve", "--mode", "strem", "-o", "r.sqlite"}, 2, "'stream'"},
      {{"--select", "topk", "--curve", "--seed", "-1", "-o", "r.sqlite"}, 2, "--seed"},
      {{"--select", "topk", "--curve", "--threads", "0", "-o", "r.sqlite"}, 2, "--threads"},
      {{"--select", "topk", "--curve", "--policies", "h2o", "-o", "r"}, 2, "unknown option"},
      {{"--select", "topk", "--curve", "-o", "missing/r.sqlite"}, 1, "missing/r.sqlite"},
  };
  for (const Case& bad : cases) {
    const Ended ended = run(folder.path(), fetch(bad.arguments));
    INFO(bad.message << "\n" << ended.err);
    CHECK(ended.status == bad.status);
    const std::size_t error = ended.err.find("kvsim: error: ");
    CHECK_THAT(ended.err.substr(std::min(error, ended.err.size())), Contains(bad.message));
    CHECK(num_lines(ended.err.substr(std::min(error, ended.err.size()))) == 1);
  }
  const Ended missing =
      run(folder.path(), {"fetch", "no.h5", "--select", "topk", "--curve", "-o", "s.sqlite"});
  CHECK(missing.status == 3);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "s.sqlite"));
}

TEST_CASE("cli: the help of fetch lists every selector with its source") {
  const TemporaryFolder folder;
  const Ended help = run(folder.path(), {"fetch", "--help"});
  CHECK(help.status == 0);
  for (const char* words : {"topk ", "top-p ", "quest ", "sparq ", "Quest (Tang et al. 2024)",
                            "rank=32", "--resident", "MIN"}) {
    CHECK_THAT(help.out, Contains(words));
  }
}

TEST_CASE("cli: shards of fetch join to the rows of one run") {
  const TemporaryFolder folder;
  const std::vector<std::string> command{"fetch",    sample_trace(), "--layers", "0",  "--select",
                                         "topk:k=9", "--resident",   "50%",      "-q", "-o"};
  const auto into = [&](const char* file, const std::vector<std::string>& more) {
    auto arguments = command;
    arguments.emplace_back(file);
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(run(folder.path(), arguments).status == 0);
  };
  into("r.sqlite", {});
  const std::string whole = exported(folder);
  into("a.sqlite", {"--shard", "1/2"});
  into("b.sqlite", {"--shard", "2/2"});
  std::filesystem::remove(folder.path() / "r.sqlite");
  CHECK(run(folder.path(), {"merge", "a.sqlite", "b.sqlite", "-o", "r.sqlite"}).status == 0);
  CHECK(exported(folder) == whole);
  CHECK(num_lines(whole) == 1 + 8 * 2);
}

}  // namespace kvsim::cli_test::fetch_test
