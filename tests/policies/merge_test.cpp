#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "policies/merging/cam_store.h"
#include "policies/parts/coins.h"
#include "policies/parts/ridge.h"
#include "policies/registry/spec.h"
#include "sim/base/errors.h"

namespace kvsim::merge_test {

using Vector = std::vector<float>;

/// A store of `window+merge:SETTINGS`, shown a text step by step.
class Text {
 public:
  Text(const std::string& settings, int head_dim, int value_dim, std::uint64_t seed = 1)
      : kind_(Spec("window+merge:" + settings).rules({.budget = 8}).store),
        shape_{.head_dim = head_dim, .value_dim = value_dim},
        store_(kind_->make({.shape = shape_, .seed = seed})) {}

  /// A token arrives, its step attends to what is held with `attention`, and `evicted` leave.
  void step(const Vector& key, const Vector& value, const Vector& attention,
            const std::vector<std::int32_t>& evicted = {}, const Vector& query = {}) {
    store_->admit(key, value);
    held_.push_back(index_);
    const std::vector<std::int32_t> attended = held_;
    for (const std::int32_t token : evicted) std::erase(held_, token);
    const std::vector<std::span<const float>> queries{query};
    store_->settle({index_++, attended, attention, held_, false, queries});
  }

  StoredToken at(std::int32_t token) const { return store_->at(token); }
  float value(std::int32_t token) const { return at(token).value[0]; }
  const std::vector<std::int32_t>& held() const { return held_; }
  std::size_t bytes() const { return store_->bytes(); }
  std::size_t budgeted(int tokens) const { return kind_->bytes(shape_, tokens, 100); }

 private:
  std::shared_ptr<const StoreKind> kind_;
  VectorShape shape_;
  std::unique_ptr<Store> store_;
  std::vector<std::int32_t> held_;
  std::int32_t index_ = 0;
};

Vector softmax_of(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  Vector weights;
  for (const double logit : logits) weights.push_back(static_cast<float>(std::exp(logit) / sum));
  return weights;
}

void check_rows(const Text& text, bool of_keys, const std::vector<Vector>& expected) {
  for (std::size_t slot = 0; slot < text.held().size(); ++slot) {
    const StoredToken stored = text.at(text.held()[slot]);
    const auto row = of_keys ? stored.key : stored.value;
    for (std::size_t d = 0; d < row.size(); ++d) {
      CAPTURE(slot, d);
      CHECK(row[d] == Approx(expected[slot][d]).margin(1e-6));
    }
  }
}

TEST_CASE("cam adds an evicted value to the next held tokens, divided by their number",
          "[policies]") {
  // Token 1 has received 1, those that follow it less: the coin is certain.
  Text text("into=cam,tokens=2", 1, 1);
  text.step({1}, {10}, {0});
  text.step({1}, {8}, {0, 1});
  text.step({1}, {3}, {0, 0, .1F});
  text.step({1}, {4}, {0, 0, .1F, .1F});
  text.step({1}, {5}, {0, 0, .1F, .1F, .1F}, {1});
  CHECK(text.value(0) == 10);
  CHECK(text.value(2) == 3 + 8 / 2.F);
  CHECK(text.value(3) == 4 + 8 / 2.F);
  CHECK(text.value(4) == 5);
  for (const std::int32_t token : text.held()) CHECK(text.at(token).log_weight == 0);
  // A token that none follows is lost; one that took values in passes them on.
  text.step({1}, {100}, {0, 0, 0, 0, 1}, {5});
  CHECK(text.value(4) == 5);
  text.step({1}, {6}, {0, .5F, 0, 0, 0}, {2});
  CHECK(text.value(3) == 4 + 8 / 2.F + 7 / 2.F);
  CHECK(text.value(4) == 5 + 7 / 2.F);
}

TEST_CASE("the probability of cam is a share of the mean attention, at most 1", "[policies]") {
  CHECK(cam_probability(.2, .8) == Approx(.25));
  CHECK(cam_probability(.8, .2) == 1);
  CHECK(cam_probability(.8, 0) == 1);
  CHECK(cam_probability(0, .8) == 0);
  CHECK(cam_probability(0, 0) == 0);
}

const std::vector<Vector> kOfCam = {
    {-1.0000000F, 1.0000000F}, {-0.7500000F, 0.5403023F}, {0.7105026F, 0.6271775F},
    {0.9605026F, -0.2722248F}, {1.2105026F, -1.0378550F}, {1.4605026F, -0.9657962F},
    {1.7105026F, -0.1222990F}, {1.9605026F, 0.7171292F},  {2.2105026F, 0.7807221F},
    {2.4605026F, 0.0100125F},  {2.7105026F, -0.8864126F}, {2.9605026F, -1.0843842F},
    {3.2105026F, -0.4018881F}, {3.4605026F, 0.5335920F},  {3.7417526F, 0.8879891F},
    {4.0093307F, 0.3708666F},  {4.2623825F, -0.5384976F}, {4.5000000F, -0.9999608F},
    {4.7500000F, -0.5328330F}, {5.0000000F, 0.4241790F}};

// What the authors' StartRecentKVCache_cam (github.com/zyxxmu/cam at fc80e64, merge_num 16) gives
// with start_size 2 and recent_size 18, where its draws merge at steps 20 to 23 and not at 24. Its
// probabilities are those of the draws.
TEST_CASE("cam merges what the authors' program merges", "[policies]") {
  const std::vector<double> probability = {1, 1, .6118946671485901, 1, .7624307870864868};
  const std::vector<bool> merges = {true, true, true, true, false};
  std::uint64_t seed = 0;
  const auto same_draws = [&] {
    const Coins coins(seed, "cam");
    for (std::size_t i = 0; i < 5; ++i) {
      if (coins.flip(static_cast<std::int32_t>(2 + i), 20 + i, probability[i]) != merges[i]) {
        return false;
      }
    }
    return true;
  };
  while (!same_draws()) ++seed;
  Text text("into=cam,tokens=16", 1, 2, seed);
  std::vector<double> received(25, 0);
  for (int t = 0; t < 25; ++t) {
    std::vector<double> logits;
    std::vector<std::int32_t> attended = text.held();
    attended.push_back(t);
    for (const std::int32_t j : attended)
      logits.push_back(1.5 * std::sin(1.7 * t + .9 * j) + .9 * j);
    const Vector attention = softmax_of(logits);
    for (std::size_t i = 0; i < attended.size(); ++i) {
      received[static_cast<std::size_t>(attended[i])] += double{attention[i]};
    }
    const Vector value{static_cast<float>(.25 * t - 1), static_cast<float>(std::cos(t))};
    if (t < 20) {
      text.step({1}, value, attention);
      continue;
    }
    const auto oldest = received.begin() + t - 18;
    const double mean = std::accumulate(oldest + 1, oldest + 17, 0.0) / 16;
    CHECK(cam_probability(*oldest, mean) == Approx(probability[static_cast<std::size_t>(t - 20)]));
    text.step({1}, value, attention, {t - 18});
  }
  check_rows(text, false, kOfCam);
}

const std::vector<Vector> kOfD2oKeys = {{-0.1598883F, 0.0424728F, 0.5577659F, 0.4268766F},
                                        {0.7281238F, 0.8034908F, 0.6041073F, -0.5022498F},
                                        {0.5116614F, 0.3288963F, -0.3189424F, -0.6938435F},
                                        {-0.4496475F, -0.1656042F, 0.6695698F, 0.7882521F},
                                        {0.5920735F, 0.8037844F, 0.9656578F, -0.1908586F},
                                        {0.986772F, 0.8947912F, 0.2064675F, -0.9613975F}};
const std::vector<Vector> kOfD2oValues = {{0.2877819F, 0.670848F, 0.3922347F, 0.5309871F},
                                          {0.1811153F, -0.4767068F, -0.1747698F, 0.0056663F},
                                          {0.2034029F, -0.4691875F, -0.2586441F, 0.1570341F},
                                          {0.1533739F, -0.9529529F, -0.44569F, 0.8162385F},
                                          {-0.5192887F, -0.4606786F, 0.997739F, -0.5755505F},
                                          {-0.9477216F, 0.7963525F, -0.5617193F, 0.2683545F}};

// What D2O_LayerKVCache (github.com/AIoT-MLSys-Lab/D2O at 12c99d8, alpha and belta 0.5) makes of
// the keys sin(1.1 j + 0.3 d d) and the values cos(0.7 j (d + 1)) where it keeps three heavy tokens
// and the last three from step 8 on.
TEST_CASE("nearest merges what the program of D2O merges", "[policies]") {
  Text text("into=nearest,weight=cosine,threshold=ema,mass=no", 4, 4);
  for (int t = 0; t < 14; ++t) {
    Vector key, value;
    for (int d = 0; d < 4; ++d) {
      key.push_back(static_cast<float>(std::sin(1.1 * t + .3 * d * d)));
      value.push_back(static_cast<float>(std::cos(.7 * t * (d + 1))));
    }
    std::vector<std::int32_t> evicted;
    if (t == 8) evicted = {3, 4, 5};
    if (t > 8) evicted = {t - 3};
    text.step(key, value, Vector(text.held().size() + 1, .1F), evicted);
  }
  check_rows(text, true, kOfD2oKeys);
  check_rows(text, false, kOfD2oValues);
  CHECK(text.bytes() == 6 * 8 * 4);
}

TEST_CASE("the nearest entry becomes a mean and stands for more tokens", "[policies]") {
  const auto run = [](const std::string& settings) {
    Text text("into=nearest" + settings, 2, 1);
    text.step({1, 0}, {1}, {.5F});
    text.step({0, 1}, {2}, {0, .5F});
    text.step({3, 0}, {5}, {0, 0, 1.5F}, {0});  // 0 joins 2
    text.step({0, 5}, {7}, {0, 0, 2}, {1});     // 1 joins 3
    text.step({6, 0}, {8}, {0, 0, 6}, {2});     // 2, of two tokens, joins 4
    return text;
  };
  const Text counted = run("");
  CHECK(counted.at(4).key[0] == Approx((1 + 3 + 6) / 3.));
  CHECK(counted.value(4) == Approx((1 + 5 + 8) / 3.));
  CHECK(counted.at(4).log_weight == Approx(std::log(3)));
  CHECK(counted.at(3).log_weight == Approx(std::log(2)));
  CHECK(counted.bytes() == 2 * (3 * 4 + 4));
  CHECK(counted.budgeted(7) == 7 * (3 * 4 + 4));
  // By attention: token 0 has received .5, token 2 1.5, token 4 6.
  const Text weighed = run(",weight=attention,mass=no");
  CHECK(weighed.at(4).key[0] == Approx((.5 * 1 + 1.5 * 3 + 6 * 6) / 8));
  CHECK(weighed.value(4) == Approx((.5 * 1 + 1.5 * 5 + 6 * 8) / 8));
  CHECK(weighed.at(4).log_weight == 0);
  CHECK(weighed.bytes() == 2 * 3 * 4);
}

TEST_CASE("tokens less alike than the moving average are lost", "[policies]") {
  Text text("into=nearest,threshold=ema", 2, 1);
  text.step({1, 0}, {1}, {1});
  text.step({0, 1}, {2}, {0, 1});
  text.step({1, 1}, {3}, {0, 0, 1});
  text.step({1, 0}, {4}, {0, 0, 0, 1}, {0});   // the first: cosine 1, the mean of itself
  text.step({-1, 0}, {9}, {0, 0, 0, 1}, {4});  // cosine 0 at best, below (1 + 0) / 2
  CHECK(text.at(3).log_weight == Approx(std::log(2)));
  CHECK(text.value(3) == 2.5);
  for (const std::int32_t token : {1, 2}) CHECK(text.at(token).log_weight == 0);
}

TEST_CASE("attention matching finds mass and output of its queries again", "[policies]") {
  // One query, which attends to all four tokens alike; a penalty of almost nothing.
  Text text("into=attention,queries=1,ridge=1e-9", 1, 1);
  text.step({0}, {1}, {1}, {}, {1});
  text.step({0}, {2}, {.5F, .5F}, {}, {1});
  text.step({0}, {3}, {.3F, .3F, .4F}, {}, {1});
  text.step({0}, {10}, {.25F, .25F, .25F, .25F}, {3}, {1});
  for (const std::int32_t token : text.held()) {
    CHECK(std::exp(text.at(token).log_weight) == Approx(4 / 3.));
    CHECK(text.value(token) == Approx(token + 1 + (4 - 2)));  // the mean of four less that of three
  }
  CHECK(text.bytes() == 3 * (2 * 4 + 4));
  Text fixed("into=attention,queries=1,ridge=1e6,mass=no", 1, 1);
  fixed.step({0}, {1}, {1}, {}, {1});
  fixed.step({0}, {9}, {.5F, .5F}, {1}, {1});
  CHECK(fixed.at(0).log_weight == 0);
  CHECK(fixed.value(0) == Approx(1).epsilon(1e-5));
  CHECK(fixed.budgeted(7) == 7 * 2 * 4);
}

TEST_CASE("factors are the least change that finds the mass again", "[policies]") {
  // One row: all columns change alike where they are alike.
  for (const double factor : factors_to_one({{.25, .25, .25}}, 1e-9)) {
    CHECK(factor == Approx(4 / 3.));
  }
  // Two equations, two columns: the second is not wanted.
  const std::vector<double> factor = factors_to_one({{1, 0}, {1, .5}}, 1e-9);
  CHECK(factor[0] == Approx(1));
  CHECK(factor[1] == Approx(0).margin(1e-6));
  // w0 + w1 - 2 moves by 1 / (2 + penalty) of what is missing.
  CHECK(factors_to_one({{1, 1}}, 2)[0] == Approx(1 - 1 / 4.));
}

TEST_CASE("merge refuses what evicts nothing, and settings that nothing reads", "[policies]") {
  struct Refused {
    const char* spec;
    const char* why;
  };
  for (const auto& [spec, why] :
       {Refused{"full+merge", "it evicts nothing"}, Refused{"topk+merge", "it selects"},
        Refused{"subgen+merge", "an estimator"}, Refused{"h2o+merge+rest", "+rest"},
        Refused{"h2o+merge+quant", "another form"},
        Refused{"sink:positions=slot+merge:into=nearest", "into=cam"},
        Refused{"h2o+merge:mass=no", "into=cam does not read mass"},
        Refused{"h2o+merge:into=nearest,tokens=3", "does not read tokens, which is of cam"},
        Refused{"h2o+merge:into=attention,weight=cosine", "does not read weight"},
        Refused{"h2o+merge:queries=3", "does not read queries"},
        Refused{"h2o+merge:ridge=1", "does not read ridge"},
        Refused{"h2o+merge:threshold=ema", "does not read threshold"}}) {
    CAPTURE(spec);
    CHECK_THROWS_AS(Spec(spec), UsageError);
    CHECK_THROWS_WITH(Spec(spec), Catch::Contains("cannot change") && Catch::Contains(why));
  }
  CHECK_NOTHROW(Spec("sink:positions=slot+merge"));
  CHECK_NOTHROW(Spec("h2o+merge:into=nearest,mass=no,weight=attention"));
}

}  // namespace kvsim::merge_test
