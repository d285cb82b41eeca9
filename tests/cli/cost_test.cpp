#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::cost_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended cost(const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments{"cost"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run(folder.path(), arguments);
}

nlohmann::json rows(std::vector<std::string> options) {
  options.insert(options.end(), {"--format", "json"});
  const Ended ended = cost(options);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return nlohmann::json::parse(ended.out);
}

TEST_CASE("cli: cost gives the largest batches of Scissorhands Table 2") {
  const auto batch = [](std::vector<std::string> options) {
    options.insert(options.end(), {"--device", "a100", "--devices", "8"});
    return rows(options)[0]["largest_batch"];
  };
  CHECK(batch({"--model", "opt-175b"}) == 34);
  CHECK(batch({"--model", "llama-65b"}) == 102);
  CHECK(batch({"--model", "bloom-176b"}) == 39);
  CHECK(batch({"--model", "bloom-176b", "--weights", "352GB"}) == 39);
  CHECK(batch({"--model", "bloom-176b", "--weights", "352GiB"}) == 36);
}

TEST_CASE("cli: cost compares budgets, which are shares of prompt and generation or tokens") {
  const auto found = rows({"--model", "opt-6.7b", "--prompt", "2048", "--generate", "2048",
                           "--batch", "24", "--budget", "100%,20%,512"});
  REQUIRE(found.size() == 3);
  CHECK(found[0]["cached_tokens"] == 4096);
  CHECK(found[1]["cached_tokens"] == 819);
  CHECK(found[2]["cached_tokens"] == 512);
  CHECK(found[1]["budget_request"] == "20%");
  CHECK(found[1]["kv_bytes_per_token"] == 512 * 1024);
  CHECK(found[1]["cache_bytes"] == 24LL * 819 * 512 * 1024);
  CHECK(found[1]["last_step_bound"] == "memory");
  CHECK(found[0]["tokens_per_second"] < found[1]["tokens_per_second"]);
  CHECK(found[1]["tokens_per_second"] < found[2]["tokens_per_second"]);
}

TEST_CASE("cli: cost reads what is offloaded over the link and limits it by the host's memory") {
  const std::vector<std::string> offloaded{"--model",  "opt-30b", "--device",          "t4",
                                           "--prompt", "512",     "--generate",        "512",
                                           "--budget", "20%",     "--offload-weights", "1"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = offloaded;
    options.insert(options.end(), more.begin(), more.end());
    return rows(options)[0];
  };
  CHECK(with({})["largest_batch"] == 55);
  const auto host = with({"--offload-cache", "1", "--host-memory", "208GB"});
  CHECK(host["largest_batch"] == 524);
  CHECK(host["last_step_bound"] == "link");
  const auto given = with({"--offload-cache", "1", "--batch", "416"});
  CHECK(given["largest_batch"].is_null());
  CHECK(given["fits"] == "yes");
  CHECK(with({"--batch", "56"})["fits"] == "no");
}

TEST_CASE("cli: cost takes a shape of one's own, and fewer bits") {
  const std::vector<std::string> shape{"--layers",   "32",  "--kv-heads",    "8",
                                       "--head-dim", "128", "--query-heads", "32",
                                       "--batch",    "1",   "--parameters",  "8030261248"};
  const auto own = rows(shape);
  auto named = rows({"--model", "llama-3-8b", "--batch", "1"});
  named[0]["model"] = own[0]["model"];
  CHECK(own == named);
  const auto small = rows({"--model", "llama-3-8b", "--kv-bits", "4", "--weight-bits", "4"});
  CHECK(small[0]["kv_bytes_per_token"] == 32 * 1024);
  CHECK(small[0]["weight_bytes"] == 8030261248 / 2);
}

TEST_CASE("cli: cost prints units for people and plain numbers for programs") {
  const std::vector<std::string> table_1{"--model", "opt-175b", "--batch", "128"};
  const Ended table = cost(table_1);
  CHECK(table.status == 0);
  CHECK_THAT(table.out,
             Contains("1152.00 GiB") && Contains("325.23 GiB") && Contains("4.5000 MiB"));
  const Ended csv = cost({"--model", "opt-175b", "--batch", "128", "--format", "csv"});
  CHECK_THAT(csv.out,
             Catch::StartsWith("budget_request,model,device") && Contains("1236950581248"));
}

TEST_CASE("cli: cost takes rows of fetch: what is on the device, and what comes over the link") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"fetch", sample_trace(), "--layers", "0", "--heads", "0", "-q",
                              "--select", "quest:k=32;topk:k=32,page=16", "--resident", "128",
                              "--replace", "lru,belady", "-o", "r.sqlite"})
              .status == 0);
  const Ended exported =
      run(folder.path(), {"export", "r.sqlite", "--table", "fetch", "--format", "json"});
  double misses = 0;
  for (const auto& row : nlohmann::json::parse(exported.out)) {
    if (row["select"] == "quest:k=32,page=16" && row["replace"] == "lru") {
      misses += row["misses"].get<double>();
    }
  }
  const auto costs = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"cost",    "--model",    "llama-3-8b", "--batch", "16",
                                       "--fetch", "r.sqlite",   "--prompt",   "8192",    "--format",
                                       "json",    "--generate", "1024"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(folder.path(), arguments);
  };
  const Ended ended = costs({});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const auto found = nlohmann::json::parse(ended.out);
  REQUIRE(found.size() == 4);
  const auto& quest = found[1];  // by name: belady before lru, quest before topk
  CHECK(quest["select"] == "quest:k=32,page=16");
  CHECK(quest["replace"] == "lru");
  CHECK(quest["resident_tokens"] == 128);
  CHECK(quest["fetched_tokens"].get<double>() == Approx(misses * 16 / 1024));
  CHECK(quest["fetched_bytes"].get<double>() ==
        Approx(16 * misses * 16 / 1024 * 128 * 1024).margin(1));
  // 32 layers of 8 heads: minima and maxima of 32 pages of keys of 16 numbers of 2 bytes.
  CHECK(quest["device_bytes"] == 16LL * (128 * 128 * 1024 + 32 * 8 * (32 * 2 * 16 * 2)));
  CHECK(quest["host_bytes"] == 16LL * 9216 * 128 * 1024);
  CHECK(found[0]["decode_seconds"] <= quest["decode_seconds"]);
  const Ended both = costs({"--budget", "20%"});
  CHECK(both.status == 2);
  CHECK_THAT(both.err, Contains("--fetch and --budget"));
  const Ended none = cost({"--model", "llama-3-8b", "--fetch", "none.sqlite"});
  CHECK(none.status == 3);
}

TEST_CASE("cli: cost says what is wrong with its arguments") {
  const auto refuses = [](const std::vector<std::string>& options, const std::string& message) {
    const Ended ended = cost(options);
    INFO(message << "\n" << ended.err);
    CHECK(ended.status == 2);
    CHECK(ended.out.empty());
    CHECK_THAT(ended.err, Catch::StartsWith("kvsim: error: ") && Contains(message));
  };
  refuses({}, "expected --model NAME");
  refuses({"--model", "opt-6.7"}, "did you mean 'opt-6.7b'?");
  refuses({"--model", "opt-6.7b", "--device", "h10"}, "did you mean 'h100'?");
  refuses({"--model", "opt-6.7b", "--layers", "3"}, "--model and --layers");
  refuses({"--layers", "3"}, "--kv-heads");
  refuses({"--layers", "3", "--kv-heads", "2", "--query-heads", "3", "--head-dim", "8",
           "--parameters", "1e6"},
          "expected a multiple of the 2 KV heads");
  refuses({"--model", "opt-30b", "--device", "t4"}, "--offload-weights");
  refuses({"--model", "opt-6.7b", "--offload-cache", "1"}, "expected --batch or --host-memory");
  refuses({"--model", "opt-6.7b", "--offload-cache", "80"}, "--offload-cache: expected 0..1");
  refuses({"--model", "opt-6.7b", "--kv-bits", "nan"}, "--kv-bits: expected 1..64");
  refuses({"--model", "opt-6.7b", "--batch", "0"}, "--batch: expected 1..");
  refuses({"--model", "opt-6.7b", "--prompt", "1.5"}, "--prompt: expected a whole number");
  refuses({"--model", "opt-6.7b", "--weights", "352"}, "expected a size such as");
  refuses({"--model", "opt-6.7b", "--budget", "0"}, "keeps nothing");
  refuses({"--model", "opt-6.7b", "--budget", "120%"}, "budget '120%'");
  refuses({"--model", "opt-6.7b", "--format", "xml"}, "expected table|csv|json");
}

}  // namespace kvsim::cli_test::cost_test
