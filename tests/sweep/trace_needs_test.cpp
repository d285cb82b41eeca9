#include "sim/sweep/trace_needs.h"

#include <catch2/catch.hpp>

#include "policies/registry/needs.h"
#include "sim/base/errors.h"
#include "sim/sweep/request/policy_lists.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/units.h"
#include "traces/trace_writer.h"

namespace kvsim::trace_needs_test {

using namespace test_support;
using Catch::Contains;
using Catch::EndsWith;
using traces_test::TemporaryFolder;

/// One unit of 20 tokens, 8 of them the prompt, with gradients and an answer if asked for.
Trace trace_of(bool gradients, const std::vector<Span>& spans) {
  TraceHeader header;
  header.num_layers = header.shape.num_query_heads = header.shape.num_kv_heads = 1;
  header.shape.head_dim = 4;
  header.shape.value_dim = 3;
  const Unit unit = random_unit({.tokens = 20, .value_dim = 3}, 1);
  TraceWriter writer(header, ElementType::float32);
  writer.begin_sequence("a", 20, 8, "", {});
  if (!spans.empty()) writer.write_spans(spans);
  writer.write_layer(0, unit.query, {unit.key}, {unit.value}, {});
  if (gradients) writer.write_gradients({{unit.value}}, 0);
  return writer.open();
}

SweepRequest request_of(const Trace& trace, std::string_view policies, Mode mode = Mode::stream) {
  SweepRequest wanted = request("", policies, {"4"});
  wanted.traces.clear();
  wanted.open_traces = {trace};
  wanted.protocol.mode = mode;
  return wanted;
}

TEST_CASE("what a policy needs and a trace lacks is refused before any work", "[needs]") {
  const auto refused = [](const Trace& trace, std::string_view policy, Mode mode) {
    try {
      plan_sweep(request_of(trace, policy, mode));
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::vector<Span> answer = {{6, 8, "answer"}};
  const Trace bare = trace_of(false, {{6, 8, "question"}});
  const Trace full = trace_of(true, answer);
  CHECK_THAT(refused(bare, "window;optimal:cost=predicted", Mode::stream),
             Contains("/sequences/a/layers/0/output_score_grad: expected the gradients that "
                      "optimal:recent=0,cost=predicted,weight=uniform needs, found nothing") &&
                 EndsWith("--also output_score_grad, or leave the policy out"));
  CHECK_THAT(refused(bare, "certificate:weight=spans", Mode::stream),
             Contains("/sequences/a/spans: expected the span labelled answer that certificate"));
  CHECK(refused(full, "optimal:cost=predicted,weight=spans", Mode::stream) == "nothing");
  CHECK_THAT(refused(full, "optimal:weight=spans", Mode::prefill), Contains("after the prompt"));
  CHECK(refused(bare, "optimal:cost=value", Mode::prefill) == "nothing");
}

TEST_CASE("lists of policies leave out what needs more than the trace holds", "[needs]") {
  const NamedSpecs named{.all = [] { return std::vector<Spec>(); },
                         .oracles =
                             [] {
                               return std::vector{Spec("belady"), Spec("optimal:cost=predicted")};
                             }};
  const auto found = [&](bool gradients) {
    SweepRequest request = request_of(trace_of(gradients, {}), "window");
    return policies_for(request, std::vector<std::string>{"oracles"}, Allocation::uniform, named);
  };
  CHECK(found(true).policies.size() == 2);
  CHECK(found(true).notes.empty());
  REQUIRE(found(false).policies.size() == 1);
  CHECK(found(false).policies.front().text() == "belady");
  REQUIRE(found(false).notes.size() == 1);
  CHECK_THAT(found(false).notes.front(), Contains("left out") && EndsWith(": optimal"));
}

TEST_CASE("help says which settings need what", "[needs]") {
  CHECK(needs_note(find_policy("optimal")) ==
        "output_score_grad (cost=predicted), spans (weight=spans)");
  CHECK(needs_note(find_policy("belady")).empty());
}

}  // namespace kvsim::trace_needs_test
