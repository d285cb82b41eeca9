#include "sim/protocol/protocol.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/base/errors.h"

namespace kvsim::protocol_test {
namespace {

/// Every combination of some values of each part that options can ask for.
std::vector<Protocol> protocols() {
  std::vector<Protocol> measured = {{}, {.error_stride = 7}, {.error_stride = 1000}};
  measured.push_back({.reference = Reference::none});
  for (const int samples : {1, 64}) {
    measured.push_back({.reference = Reference::sample, .samples = samples});
  }
  const std::vector<Paging> pagings = {
      {}, {.size = 16}, {.size = 3, .score = PageScore::max}, {.size = 3, .score = PageScore::min}};
  std::vector<Protocol> all;
  for (Protocol protocol : measured) {
    for (const Mode mode : {Mode::stream, Mode::prefill}) {
      for (const int interval : {1, 2, 1'000'000, kNeverEvict}) {
        for (const Paging& paging : pagings) {
          protocol.mode = mode;
          protocol.eviction_interval = interval;
          protocol.paging = paging;
          all.push_back(protocol);
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("protocol: the name of a row tells which it is") {
  std::set<std::string> names;
  for (const Protocol& protocol : protocols()) {
    CAPTURE(protocol.name());
    CHECK(Protocol::of_name(protocol.name()) == protocol);
    names.insert(protocol.name());
  }
  CHECK(names.size() == protocols().size());
}

TEST_CASE("protocol: names are those of the column mode") {
  const auto name = [](const Protocol& protocol) { return protocol.name(); };
  CHECK(name({}) == "stream");
  CHECK(name({.mode = Mode::prefill}) == "prefill");
  CHECK(name({.eviction_interval = 8}) == "stream:interval=8");
  CHECK(name({.mode = Mode::prefill, .eviction_interval = kNeverEvict, .error_stride = 10}) ==
        "prefill:interval=never,every=10");
  CHECK(name({.mode = Mode::prefill, .eviction_interval = 8, .reference = Reference::none}) ==
        "prefill:interval=8,reference=none");
  CHECK(name({.reference = Reference::sample, .samples = 64}) == "stream:reference=sample:64");
  CHECK(name({.eviction_interval = 8, .paging = {.size = 16}, .error_stride = 10}) ==
        "stream:interval=8,page=16,every=10");
  CHECK(name({.paging = {.size = 16, .score = PageScore::min}}) == "stream:page=16,page-score=min");
  CHECK(name({.mode = Mode::prefill,
              .eviction_interval = 8,
              .reference = Reference::sample,
              .samples = 3}) == "prefill:interval=8,reference=sample:3");
}

TEST_CASE("protocol: no other text is a name") {
  for (const char* text : {"",
                           "strean",
                           "stream:",
                           "stream:interval=1",
                           "stream:interval=0",
                           "stream:every=1",
                           "stream:every=x",
                           "stream:reference=full",
                           "stream:every=10,interval=4",
                           "stream:interval=4,interval=4",
                           "stream:interval=4,",
                           "stream:,interval=4",
                           "stream:interval",
                           "stream:pages=4",
                           "stream:page=0",
                           "stream:page=1",
                           "stream:page-score=max",
                           "stream:page=4,page-score=mean",
                           "stream:page=4,interval=2",
                           "prefill:reference=sample:0",
                           "prefill every=10"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Protocol::of_name(text), DataError);
  }
}

TEST_CASE("protocol: options give the protocol that they name") {
  CHECK(protocol_of({}) == Protocol());
  CHECK(protocol_of({.mode = "prefill", .eviction_interval = "never", .every = 10}).name() ==
        "prefill:interval=never,every=10");
  CHECK(protocol_of({.eviction_interval = "1000000", .reference = "sample:12"}).name() ==
        "stream:interval=1000000,reference=sample:12");
  for (const ProtocolOptions& refused :
       std::vector<ProtocolOptions>{{.mode = "prefil"},
                                    {.eviction_interval = "1000001"},
                                    {.eviction_interval = "2x"},
                                    {.page = 0},
                                    {.page = 1'000'001},
                                    {.page_score = "max"},
                                    {.page = 16, .page_score = "median"},
                                    {.every = 0},
                                    {.reference = "sample:x"},
                                    {.reference = "half"},
                                    {.every = 2, .reference = "none"},
                                    {.every = 2, .reference = "sample:9"}}) {
    CHECK_THROWS_AS(protocol_of(refused), UsageError);
  }
}

TEST_CASE("protocol: how much a cache may hold between evictions") {
  CHECK(Protocol().most_held(7) == 7);
  CHECK(Protocol{.eviction_interval = 4}.most_held(7) == 10);
  CHECK(Protocol{.mode = Mode::prefill, .eviction_interval = kNeverEvict}.most_held(7) ==
        kNeverEvict);
  CHECK_NOTHROW(check_evicts_every_step({.mode = Mode::prefill, .error_stride = 3}, "why"));
  CHECK_THROWS_WITH(check_evicts_every_step({.eviction_interval = 4}, "why"),
                    "--eviction-interval: why");
  CHECK_NOTHROW(check_evicts_by_token({.eviction_interval = 4}, "why"));
  CHECK_THROWS_WITH(check_evicts_by_token({.paging = {.size = 4}}, "why"), "--page 4: why");
}

}  // namespace kvsim::protocol_test
