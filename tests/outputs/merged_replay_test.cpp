// Replays with +merge against the same replay written out in double precision: who joins whom, and
// what the next steps attend to.

#include <Eigen/Cholesky>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "policies/parts/coins.h"
#include "sim/base/errors.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/compare.h"
#include "tests/support/stepwise_reference.h"
#include "tests/support/units.h"
#include "traces/unit_seed.h"

namespace kvsim::merged_replay_test {

using namespace test_support;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::uint64_t kSeed = 5;

/// What the cache has of a token.
struct Entry {
  VectorXd key, value;
  double bias = 0;
  double count = 1;
  double received = 0;
};

struct Written {
  const Unit& unit;
  std::map<int, Entry> held = {};
  int step = 0;

  VectorXd query(int head, int t) const {
    return unit.query[static_cast<std::size_t>(head)].row(t).cast<double>().transpose();
  }
  double logit(const VectorXd& of, const Entry& entry) const {
    const double product = double{unit.scale} * of.dot(entry.key);
    const auto cap = unit.logit_softcap;
    return (cap ? *cap * std::tanh(product / *cap) : product) + entry.bias;
  }
};

/// Evicted entries, which `held` no longer has, leave at the end of a step.
using Merge = std::function<void(Written& written, const std::map<int, Entry>& evicted)>;

Merge cam(int most) {
  return [most](Written& written, const std::map<int, Entry>& evicted) {
    for (const auto& [token, entry] : evicted) {
      std::vector<Entry*> next;
      for (auto& [other, its] : written.held) {
        if (other > token && static_cast<int>(next.size()) < most) next.push_back(&its);
      }
      if (next.empty()) continue;
      double sum = 0;
      for (const Entry* its : next) sum += its->received;
      const auto number = static_cast<double>(next.size());
      const Coins coins(unit_seed(kSeed, written.unit.name), "cam");
      const auto step = static_cast<std::size_t>(written.step);
      if (!coins.flip(token, step, std::min(1.0, entry.received / (sum / number)))) continue;
      for (Entry* its : next) its->value += entry.value / number;
    }
  };
}

/// `weight` of an entry that joins with this cosine; the one that is joined has 1.
Merge nearest(const std::function<double(const Entry&, double cosine)>& weight, bool has_mass) {
  return [=](Written& written, const std::map<int, Entry>& evicted) {
    const std::map<int, Entry> before = written.held;
    std::map<int, double> sums;
    for (auto& [token, entry] : written.held) {
      sums[token] = weight(entry, 1);
      entry.key *= sums[token];
      entry.value *= sums[token];
    }
    for (const auto& [token, entry] : evicted) {
      int best = -1;
      double largest = -2;
      for (const auto& [other, its] : before) {
        const double cosine = entry.key.normalized().dot(its.key.normalized());
        if (cosine > largest) {
          largest = cosine;
          best = other;
        }
      }
      Entry& joined = written.held.at(best);
      const double share = weight(entry, largest);
      joined.key += share * entry.key;
      joined.value += share * entry.value;
      joined.count += entry.count;
      joined.received += entry.received;
      sums[best] += share;
    }
    for (auto& [token, entry] : written.held) {
      entry.key /= sums[token];
      entry.value /= sums[token];
      if (has_mass) entry.bias = std::log(entry.count);
    }
  };
}

/// The two least squares, by their normal equations.
Merge matching(int steps, double ridge, bool has_mass) {
  return [=](Written& written, const std::map<int, Entry>& evicted) {
    const int heads = written.unit.group_size();
    const int first = std::max(0, written.step + 1 - steps);
    const Eigen::Index rows = heads * (written.step + 1 - first);
    const auto number = static_cast<Eigen::Index>(written.held.size());
    MatrixXd of_held(rows, number), of_evicted(rows, evicted.size());
    const Eigen::Index dim = written.unit.value.cols();
    MatrixXd values(number, dim), left(evicted.size(), dim);
    Eigen::Index column = 0;
    const auto fill = [&](MatrixXd& weights, MatrixXd& its_values,
                          const std::map<int, Entry>& entries) {
      column = 0;
      for (const auto& [token, entry] : entries) {
        for (Eigen::Index r = 0; r < rows; ++r) {
          const int step = first + static_cast<int>(r) / heads;
          const VectorXd query = written.query(static_cast<int>(r) % heads, step);
          weights(r, column) = token > step ? 0 : std::exp(written.logit(query, entry));
        }
        its_values.row(column++) = entry.value.transpose();
      }
    };
    fill(of_held, values, written.held);
    fill(of_evicted, left, evicted);
    const VectorXd sum = of_held.rowwise().sum() + of_evicted.rowwise().sum();
    const VectorXd per_sum = (sum.array() > 0).select(sum.cwiseInverse(), 0);
    of_held = per_sum.asDiagonal() * of_held;
    of_evicted = per_sum.asDiagonal() * of_evicted;
    const MatrixXd wanted = of_held * values + of_evicted * left;
    const auto solve = [&](const MatrixXd& x, const MatrixXd& missing) {
      MatrixXd normal = x.transpose() * x;
      normal.diagonal().array() += ridge * x.squaredNorm() / static_cast<double>(rows);
      return MatrixXd(normal.ldlt().solve(x.transpose() * missing));
    };
    MatrixXd after = of_held;
    if (has_mass) {
      const MatrixXd missing = VectorXd::Ones(rows) - of_held.rowwise().sum();
      const VectorXd factor = (solve(of_held, missing).col(0).array() + 1).cwiseMax(1e-12);
      after = of_held * factor.asDiagonal();
      column = 0;
      for (auto& [token, entry] : written.held) entry.bias += std::log(factor[column++]);
    }
    const VectorXd sums = after.rowwise().sum();
    const VectorXd per_sums = (sums.array() > 0).select(sums.cwiseInverse(), 0);
    after = per_sums.asDiagonal() * after;
    const MatrixXd moved = solve(after, wanted - after * values);
    column = 0;
    for (auto& [token, entry] : written.held) entry.value += moved.row(column++).transpose();
  };
}

/// Relative errors of the outputs, [query heads][measured steps].
std::vector<std::vector<double>> errors(const Unit& unit, const Evictions& evicted_after,
                                        int prompt, const Merge& merge) {
  const ReferenceUnit reference(unit);
  const auto heads = static_cast<std::size_t>(unit.group_size());
  std::vector<std::vector<double>> result(heads);
  Written written{unit};
  for (int t = 0; t < unit.num_tokens(); ++t) {
    written.step = t;
    Entry& newest = written.held[t];
    newest.key = unit.key.row(t).cast<double>().transpose();
    newest.value = unit.value.row(t).cast<double>().transpose();
    for (std::size_t head = 0; head < heads; ++head) {
      const VectorXd query = written.query(static_cast<int>(head), t);
      std::map<int, double> weight;
      double sum = std::exp(double{unit.sink(static_cast<int>(head))});
      VectorXd output = VectorXd::Zero(unit.value.cols());
      for (const auto& [token, entry] : written.held) {
        sum += weight[token] = std::exp(written.logit(query, entry));
        output += weight[token] * entry.value;
      }
      for (auto& [token, entry] : written.held) {
        entry.received += weight[token] / sum / static_cast<double>(heads);
      }
      if (t < prompt) continue;
      const auto& full = reference.heads[head].output[static_cast<std::size_t>(t)];
      const Eigen::Map<const VectorXd> expected(full.data(), output.size());
      result[head].push_back((output / sum - expected).norm() / expected.norm());
    }
    std::map<int, Entry> evicted;
    for (auto it = written.held.begin(); it != written.held.end();) {
      if (evicted_after[static_cast<std::size_t>(it->first)] == t) {
        evicted.insert(*it);
        it = written.held.erase(it);
      } else {
        ++it;
      }
    }
    if (!evicted.empty()) merge(written, evicted);
  }
  return result;
}

Outcome replay_one(const Unit& unit, const std::string& spec, int budget, Mode mode = Mode::stream,
                   std::uint64_t seed = kSeed) {
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = seed, .trajectories = true};
  return replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend()).front();
}

void check(const Unit& unit, const std::string& settings, const Merge& merge, Mode mode) {
  for (const char* policy : {"window", "h2o", "tova", "snapkv:window=4"}) {
    const std::string spec = std::string(policy) + "+merge:" + settings;
    CAPTURE(spec, Protocol{.mode = mode}.name());
    const Outcome outcome = replay_one(unit, spec, 12, mode);
    const int prompt = mode == Mode::stream ? 0 : unit.prompt_length;
    const auto expected = errors(unit, outcome.trajectory.evicted_after, prompt, merge);
    double worst = 0;
    for (std::size_t head = 0; head < expected.size(); ++head) {
      for (std::size_t i = 0; i < expected[head].size(); ++i) {
        const double found = double{outcome.trajectory.output_error(static_cast<Eigen::Index>(head),
                                                                    static_cast<Eigen::Index>(i))};
        worst = std::max(worst, std::abs(found - expected[head][i]) / (1 + expected[head][i]));
      }
    }
    CHECK(worst < 2e-4);
    CHECK(outcome.result.output_error_mean > 0.01);
    CHECK(outcome.result.bound_mean == std::nullopt);
  }
}

void check_all(const Unit& unit, Mode mode) {
  check(unit, "into=cam,tokens=3", cam(3), mode);
  check(unit, "into=cam", cam(32), mode);
  const auto count = [](const Entry& entry, double) { return entry.count; };
  const auto received = [](const Entry& entry, double) { return entry.received; };
  check(unit, "into=nearest", nearest(count, true), mode);
  check(unit, "into=nearest,weight=attention,mass=no", nearest(received, false), mode);
  check(unit, "into=attention", matching(16, .01, true), mode);
  check(unit, "into=attention,queries=2,ridge=1,mass=no", matching(2, 1, false), mode);
}

TEST_CASE("steps attend to what evicted tokens were merged into", "[merge]") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  Unit unit = random_unit(
      {.tokens = 50, .head_dim = 6, .value_dim = 4, .group = 2, .prompt_length = 20}, 91);
  switch (GENERATE(0, 1, 2)) {
    case 1:
      unit.logit_softcap = 3.F;
      break;
    case 2:
      unit.sink_logit = {0.F, 2.F};
      break;
    default:
      break;
  }
  check_all(unit, mode);
}

TEST_CASE("tokens with equal keys merge without loss", "[merge]") {
  // All logits are 0, so an entry with the mean value and the mass of its tokens is exact.
  const Unit unit = uniform_unit({.tokens = 40, .group = 2});
  for (const char* policy : {"window", "random", "h2o"}) {
    const std::string spec = std::string(policy) + "+merge:into=";
    CHECK(*replay_one(unit, spec + "nearest", 9).result.output_error_max < 1e-5);
    CHECK(*replay_one(unit, spec + "attention,ridge=1e-6", 9).result.output_error_max < 1e-2);
    CHECK(*replay_one(unit, spec + "nearest,mass=no", 9).result.output_error_max > 0.05);
  }
}

TEST_CASE("with room for every token nothing is merged", "[merge]") {
  const Unit unit = random_unit({.tokens = 40, .group = 2, .prompt_length = 15}, 92);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const std::string into = GENERATE("cam", "nearest", "attention");
  const Outcome outcome = replay_one(unit, "h2o+merge:into=" + into, 40, mode);
  CHECK(outcome.result.evictions == 0);
  CHECK(outcome.result.attention_recall == 1);
  CHECK(*outcome.result.output_error_max < 1e-6);
  const int weight = into == "cam" ? 0 : 4;
  CHECK(outcome.result.cache_bytes ==
        replay_one(unit, "full", 40, mode).result.cache_bytes + 40 * weight);
}

TEST_CASE("a merging cache counts its weights, and the seed alone decides its draws", "[merge]") {
  const Unit unit = random_unit({.tokens = 60, .head_dim = 8, .value_dim = 6}, 93);
  const auto bytes = [&](const char* spec) { return replay_one(unit, spec, 9).result.cache_bytes; };
  CHECK(bytes("h2o+merge") == bytes("h2o"));
  CHECK(bytes("h2o+merge:into=nearest") == bytes("h2o") + 9 * 4);
  CHECK(bytes("h2o+merge:into=attention") == bytes("h2o") + 9 * 4);
  CHECK(bytes("h2o+merge:into=attention,mass=no") == bytes("h2o"));
  const auto run = [&](std::uint64_t seed) {
    return replay_one(unit, "h2o+merge", 20, Mode::stream, seed).trajectory.output_error;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("cam merges values where keys are rotated to their slots", "[merge]") {
  const Unit unit = random_unit({.tokens = 50, .group = 2}, 94);
  const Outcome merged = replay_one(unit, "sink:positions=slot+merge", 12);
  const Outcome plain = replay_one(unit, "sink:positions=slot", 12);
  CHECK(merged.trajectory.evicted_after == plain.trajectory.evicted_after);
  const Matrix moved = merged.trajectory.output_error - plain.trajectory.output_error;
  CHECK(moved.leftCols(13).isZero(1e-6));  // nothing has left yet
  CHECK_FALSE(moved.isZero(1e-3));
}

TEST_CASE("layers that hide tokens are refused", "[merge]") {
  const std::string into = GENERATE("cam", "nearest", "attention");
  Unit unit = random_unit({.tokens = 30}, 95);
  unit.sliding_window = 5;
  const auto merged = [&] { return replay_one(unit, "window+merge:into=" + into, 4); };
  CHECK_THROWS_AS(merged(), UsageError);
  CHECK_THROWS_WITH(merged(), Catch::Contains("found a sliding window of 5 tokens; leave +merge"));
  unit.sliding_window.reset();
  unit.attention_chunk = 8;
  CHECK_THROWS_WITH(merged(), Catch::Contains("found chunks of 8 tokens; leave +merge out"));
  unit = random_unit({.tokens = 30, .selected = 5}, 96);
  CHECK_THROWS_WITH(merged(), Catch::Contains("found one that selects; leave +merge out"));
}

}  // namespace kvsim::merged_replay_test
