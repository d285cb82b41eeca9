#include "sim/sweep/request/request_options.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/sweep/request/policy_lists.h"

namespace kvsim::request_options_test {

using Catch::Matchers::Contains;

TEST_CASE("options: the defaults are those of a request") {
  const SweepRequest request = request_of(RequestOptions());
  CHECK(request.protocol.mode == Mode::stream);
  CHECK(request.protocol.eviction_interval == 1);
  CHECK(request.protocol.has_reference());
  CHECK(request.selection.layers.empty());
  CHECK(request.threads >= 1);
}

TEST_CASE("options: each sets its part of the request") {
  RequestOptions options;
  options.sequences = {"a,b"};
  options.layers = "0-2,5";
  options.heads = "1";
  options.protocol.mode = "prefill";
  options.protocol.eviction_interval = "never";
  options.seed = 3;
  options.threads = 2;
  options.protocol.every = 4;
  const SweepRequest request = request_of(options);
  CHECK(request.selection.sequences == std::vector<std::string>{"a,b"});
  CHECK(request.selection.layers == std::vector<int>{0, 1, 2, 5});
  CHECK(request.selection.kv_heads == std::vector<int>{1});
  CHECK(request.protocol.mode == Mode::prefill);
  CHECK(request.protocol.eviction_interval == kNeverEvict);
  CHECK(request.seed == 3);
  CHECK(request.threads == 2);
  CHECK(request.protocol.error_stride == 4);
}

TEST_CASE("options: a value that is not allowed names the option") {
  const auto refused = [](auto member, auto value) {
    RequestOptions options;
    options.*member = value;
    request_of(options);
  };
  const auto refused_protocol = [](auto member, auto value) {
    RequestOptions options;
    options.protocol.*member = value;
    request_of(options);
  };
  CHECK_THROWS_WITH(refused_protocol(&ProtocolOptions::mode, "strean"),
                    Contains("--mode: expected stream"));
  CHECK_THROWS_WITH(refused_protocol(&ProtocolOptions::eviction_interval, "0"),
                    Contains("--eviction-interval: expected 1.."));
  CHECK_THROWS_WITH(refused(&RequestOptions::seed, -1), Contains("--seed: expected 0 or more"));
  CHECK_THROWS_WITH(refused(&RequestOptions::threads, 0), Contains("--threads: expected 1.."));
  CHECK_THROWS_WITH(refused_protocol(&ProtocolOptions::every, 0),
                    Contains("--every: expected 1 or more"));
  CHECK_THROWS_WITH(refused_protocol(&ProtocolOptions::reference, "some"),
                    Contains("--reference: expected"));
  CHECK_THROWS_WITH(refused(&RequestOptions::layers, "1-"), Contains("--layers: "));
}

TEST_CASE("policy lists: aliases and what is left out are notes") {
  SweepRequest request = request_of(RequestOptions());
  request.protocol.reference = Reference::none;
  const PolicyList all =
      policies_for(request, std::vector<std::string>{"streamingllm;all"}, Allocation::uniform);
  REQUIRE(all.notes.size() == 2);
  CHECK_THAT(all.notes[0], Contains("streamingllm is sink here"));
  CHECK_THAT(all.notes[1], Contains("left out, as these options rule them out: "));
  CHECK(policies_in(std::vector<std::string>{"h2o"}, Allocation::pyramid)
            .policies.front()
            .allocation() == Allocation::pyramid);
  CHECK_THROWS_AS(policies_for(request, std::vector<std::string>{"oracles"}, Allocation::uniform),
                  UsageError);
}

}  // namespace kvsim::request_options_test
