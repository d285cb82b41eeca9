#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "sim/replay/replay.h"
#include "tests/support/stepwise_reference.h"
#include "tests/support/units.h"

namespace kvsim::shared_heads_test {

using namespace test_support;

/// The heads of one layer under h2o:recent=0+shared, from the definitions: each head sums the mean
/// attention of its own query heads, and the joined sums say what leaves all heads.
class SharedReference {
 public:
  SharedReference(const std::vector<Unit>& layer, JoinedScores joined, const Protocol& protocol,
                  int budget)
      : joined_(joined), page_(protocol.paging.size), sums_(layer.size()) {
    for (const Unit& unit : layer) records.emplace_back(units_.emplace_back(unit), protocol.mode);
    for (int t = 0; t < layer.front().num_tokens(); ++t) {
      tokens_.push_back(t);
      attend(t);
      if (records.front().may_evict(t)) evict(t, budget);
    }
  }

  std::deque<ReferenceRecord> records;  ///< per unit

 private:
  void attend(int t) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const ReferenceUnit& unit = units_[i];
      sums_[i].resize(static_cast<std::size_t>(t) + 1);
      for (std::size_t h = 0; h < unit.heads.size(); ++h) {
        const ReferenceAttention& head = unit.heads[h];
        const auto attention = softmax(head.logit[static_cast<std::size_t>(t)], tokens_, head.sink);
        records[i].measure(static_cast<int>(h), t, tokens_,
                           weighted_value(unit.unit, tokens_, attention));
        for (std::size_t j = 0; j < tokens_.size(); ++j) {
          sums_[i][static_cast<std::size_t>(tokens_[j])] +=
              attention[j] / static_cast<double>(unit.heads.size());
        }
      }
    }
  }

  std::vector<int> candidates(int t) const {
    std::vector<int> candidates = tokens_;
    if (page_ > 1) std::erase_if(candidates, [&](int j) { return j / page_ == t / page_; });
    return candidates;
  }

  double joined(int token, int t) const {
    std::vector<double> scores;
    for (const auto& sums : sums_) {
      const double own = sums[static_cast<std::size_t>(token)];
      if (joined_ != JoinedScores::mean_rank) {
        scores.push_back(own);
        continue;
      }
      double lower = 0;
      double equal = 0;
      for (const int j : candidates(t)) {
        lower += sums[static_cast<std::size_t>(j)] < own;
        equal += sums[static_cast<std::size_t>(j)] == own;
      }
      scores.push_back(lower + (equal + 1) / 2);
    }
    if (joined_ == JoinedScores::max) return *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += score;
    return sum / static_cast<double>(scores.size());
  }

  // The lowest pages of the step leave, until the budget holds; ranks are those before.
  void evict(int t, int budget) {
    std::map<int, double> pages;
    for (const int j : candidates(t)) pages[j / page_] += joined(j, t);
    while (static_cast<int>(tokens_.size()) > budget) {
      const auto lowest =
          std::min_element(pages.begin(), pages.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      for (int j = lowest->first * page_; j < (lowest->first + 1) * page_; ++j) {
        std::erase(tokens_, j);
        for (ReferenceRecord& record : records) {
          record.evicted_after[static_cast<std::size_t>(j)] = t;
        }
      }
      pages.erase(lowest);
    }
  }

  JoinedScores joined_;
  int page_;
  std::deque<ReferenceUnit> units_;
  std::vector<int> tokens_;
  std::vector<std::vector<double>> sums_;  // per unit and token
};

TEST_CASE("heads that share a cache score alone and keep the same tokens", "[coupled]") {
  const auto [name, joined] =
      GENERATE(table<std::string, JoinedScores>({{"mean", JoinedScores::mean},
                                                 {"max", JoinedScores::max},
                                                 {"rank", JoinedScores::mean_rank}}));
  const Protocol protocol{.mode = GENERATE(Mode::stream, Mode::prefill),
                          .paging = {.size = GENERATE(1, 4)}};
  std::vector<Unit> units =
      random_units({.tokens = 65, .value_dim = 3, .group = 2, .prompt_length = 30}, 96);
  units.resize(2);  // one layer
  const Spec spec("h2o:recent=0+shared:scores=" + name);
  for (const int budget : {8, 20, 64}) {
    CAPTURE(name, protocol.name(), budget);
    const auto outcomes =
        replay_together(units, {{spec, budget}}, {.protocol = protocol, .trajectories = true},
                        *make_cpu_backend())
            .front();
    const SharedReference expected(units, joined, protocol, budget);
    for (std::size_t i = 0; i < units.size(); ++i) {
      CHECK(expected.records[i].differences(outcomes[i]) == "");
      CHECK(outcomes[i].result.peak_tokens == budget);
      CHECK(outcomes[i].result.bound_violations == 0);
    }
  }
}

TEST_CASE("a layer of one KV head shares nothing", "[coupled]") {
  std::vector<Unit> units = random_units({.tokens = 65, .group = 2}, 97);
  units.resize(1);
  for (const char* policy : {"h2o", "snapkv", "lru", "random", "optimal"}) {
    CAPTURE(policy);
    const auto outcomes =
        replay_together(units, {{Spec(policy), 20}, {Spec(std::string(policy) + "+shared"), 20}},
                        {.seed = 4, .trajectories = true}, *make_cpu_backend());
    CHECK(outcomes[0][0].trajectory.evicted_after == outcomes[1][0].trajectory.evicted_after);
  }
}

}  // namespace kvsim::shared_heads_test
