#include "tests/oracle/lookahead_reference.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "tests/support/reference_replay.h"

namespace kvsim::oracle_test {
namespace {

using test_support::ReferenceUnit;
using Vector = std::vector<double>;

class Layer {
 public:
  /// `units` has to outlive the object.
  Layer(const std::vector<Unit>& units, const EvictionSteps& steps, int window, std::string cost)
      : steps_(steps), window_(window), cost_(std::move(cost)), held_(units.size()) {
    for (const Unit& unit : units) units_.push_back(std::make_unique<ReferenceUnit>(unit));
  }

  double excess(const std::vector<Schedule>& schedules) {
    double largest = 0;
    for (int step = 0; step < steps_.num_tokens(); ++step) {
      for (std::vector<int>& held : held_) held.push_back(step);
      for (std::size_t unit = 0; unit < units_.size(); ++unit) {
        const Schedule& schedule = schedules[unit];
        for (auto left = std::count(schedule.begin(), schedule.end(), step); left > 0; --left) {
          largest = std::max(largest, evict(unit, step, schedule));
        }
      }
    }
    return largest;
  }

  double squared_error(const Schedule& schedule) {
    double sum = 0;
    for (int step = 0; step < steps_.num_tokens(); ++step) {
      held_[0].push_back(step);
      for (std::size_t head = 0; head < units_[0]->heads.size(); ++head) {
        if (step < steps_.first_measured()) continue;
        for (const double x : error(0, head, step, step)) sum += x * x;
      }
      const auto leaves = [&](int token) {
        return schedule[static_cast<std::size_t>(token)] == step;
      };
      std::erase_if(held_[0], leaves);
    }
    return sum;
  }

  double squared_error(int step, const std::vector<int>& held) {
    held_[0] = held;
    double sum = 0;
    for (std::size_t head = 0; head < units_[0]->heads.size(); ++head) {
      for (const double x : error(0, head, step, step)) sum += x * x;
    }
    return sum;
  }

 private:
  // Of the tokens that leave after `step`, evicts that with the least loss. Returns its excess.
  double evict(std::size_t unit, int step, const Schedule& schedule) {
    const std::vector<int> held = held_[unit];
    double least = std::numeric_limits<double>::infinity();
    double least_leaving = least;
    std::vector<int> rest_of_least;
    for (std::size_t i = 0; i < held.size(); ++i) {
      held_[unit] = held;
      held_[unit].erase(held_[unit].begin() + static_cast<std::ptrdiff_t>(i));
      const double without = loss(unit, step);
      least = std::min(least, without);
      if (schedule[static_cast<std::size_t>(held[i])] != step || without >= least_leaving) continue;
      least_leaving = without;
      rest_of_least = held_[unit];
    }
    held_[unit] = rest_of_least;
    return (least_leaving - least) / (least + 1e-6);
  }

  // Of the steps after `step`, as far as the cache of `unit` decides it.
  double loss(std::size_t unit, int step) const {
    const int last = std::min(step + window_, steps_.num_tokens() - 1);
    double sum = 0;
    for (int s = step + 1; s <= last; ++s) {
      if (cost_ == "projected") {
        sum += projected(step, s);
        continue;
      }
      for (std::size_t head = 0; head < units_[unit]->heads.size(); ++head) {
        const Vector delta = error(unit, head, step, s);
        if (cost_ == "error") {
          for (const double x : delta) sum += x * x;
          continue;
        }
        for (const std::vector<Matrix>& sample : units_[unit]->unit.output_score_grad) {
          double product = 0;
          for (std::size_t d = 0; d < delta.size(); ++d) {
            product += delta[d] * double{sample[head](s, static_cast<Eigen::Index>(d))};
          }
          sum += product * product;
        }
      }
    }
    return sum;
  }

  double projected(int step, int s) const {
    Vector total(static_cast<std::size_t>(units_[0]->unit.output_projection[0].cols()), 0.0);
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      for (std::size_t head = 0; head < units_[unit]->heads.size(); ++head) {
        const Vector delta = error(unit, head, step, s);
        const Matrix& projection = units_[unit]->unit.output_projection[head];
        for (std::size_t d = 0; d < delta.size(); ++d) {
          for (std::size_t c = 0; c < total.size(); ++c) {
            total[c] += delta[d] * double{projection(static_cast<Eigen::Index>(d),
                                                     static_cast<Eigen::Index>(c))};
          }
        }
      }
    }
    double sum = 0;
    for (const double x : total) sum += x * x;
    return sum;
  }

  // ô - o at step s, if nothing leaves between `step` and s.
  Vector error(std::size_t unit, std::size_t head, int step, int s) const {
    const test_support::ReferenceAttention& attention = units_[unit]->heads[head];
    std::vector<int> tokens = held_[unit];
    for (int token = step + 1; token <= s; ++token) tokens.push_back(token);
    Vector logit;
    for (const int token : tokens) {
      logit.push_back(
          attention.logit[static_cast<std::size_t>(s)][static_cast<std::size_t>(token)]);
    }
    std::vector<int> places(tokens.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(i);
    Vector delta = test_support::weighted_value(
        units_[unit]->unit, tokens, test_support::softmax(logit, places, attention.sink));
    const Vector& output = attention.output[static_cast<std::size_t>(s)];
    for (std::size_t d = 0; d < delta.size(); ++d) delta[d] -= output[d];
    return delta;
  }

  EvictionSteps steps_;
  int window_;
  std::string cost_;
  std::vector<std::unique_ptr<ReferenceUnit>> units_;
  std::vector<std::vector<int>> held_;
};

}  // namespace

double lookahead_excess(const std::vector<Unit>& layer, const EvictionSteps& steps, int window,
                        const std::string& cost, const std::vector<Schedule>& schedules) {
  return Layer(layer, steps, window, cost).excess(schedules);
}

double least_squared_error(const Unit& unit, int budget) {
  const std::vector<Unit> units = {unit};
  Layer layer(units, EvictionSteps(unit.num_tokens()), 1, "error");
  // Per set that a cache can hold after a step, the least error so far.
  std::map<std::vector<int>, double> least;
  std::vector<int> first(static_cast<std::size_t>(budget));
  std::iota(first.begin(), first.end(), 0);
  least[first] = 0;
  for (int step = budget; step < unit.num_tokens(); ++step) {
    std::map<std::vector<int>, double> next;
    for (auto& [held, so_far] : least) {
      std::vector<int> attended = held;
      attended.push_back(step);
      const double loss = so_far + layer.squared_error(step, attended);
      for (std::size_t left = 0; left < attended.size(); ++left) {
        std::vector<int> kept = attended;
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(left));
        const auto [entry, is_new] = next.emplace(std::move(kept), loss);
        entry->second = std::min(entry->second, loss);
      }
    }
    least = std::move(next);
  }
  const auto is_less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(least.begin(), least.end(), is_less)->second;
}

double squared_error(const Unit& unit, const EvictionSteps& steps, const Schedule& schedule) {
  return Layer({unit}, steps, 1, "error").squared_error(schedule);
}

}  // namespace kvsim::oracle_test
