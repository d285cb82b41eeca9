#include <catch2/catch.hpp>
#include <cmath>

#include "oracle/concave.h"
#include "policies/registry/spec.h"
#include "tests/oracle/small_attention.h"
#include "traces/trace.h"

namespace kvsim::references_test {

using namespace oracle_test;

Schedule plan(const std::string& spec, const FutureAttention& attention, int budget) {
  return plans(spec, attention, {budget}).front().schedule;
}

// Token 0 is accessed soon but little, token 1 late but fully, token 2 never again.
const Rows kRows = {{1},
                    {0.5, 0.5},
                    {0.2, 0.2, 0.6},
                    {0.3, 0.1, 0.1, 0.5},
                    {0.3, 0.1, 0.1, 0.1, 0.4},
                    {0, 1, 0, 0, 0, 0}};

TEST_CASE("belady lets the token go whose next access is farthest", "[references]") {
  // More than an even share: of 0 at 3 (.3 > .25) and 4, of 1 at 5, of 2 never after its own step.
  // Step 2 drops 2 and step 3 drops 3. After step 4 neither 0 nor 4 is accessed again: 0 goes.
  // After step 5 nothing is: 1 goes.
  CHECK(plan("belady", FutureAttention(kRows), 2) == Schedule{4, 5, 2, 3, 6, 6});
  CHECK(plan("belady", FutureAttention(kRows), 1) == Schedule{4, 1, 2, 3, 5, 6});
}

TEST_CASE("future lets the token go that has the least attention to come", "[references]") {
  // After step 1 token 0 has .8 to come and 1 has 1.4; after step 2, 2 has .2; after 3, 3 has .1.
  // After step 4 neither 0 nor 4 has any, after step 5 nothing has: the lower goes.
  CHECK(plan("future", FutureAttention(kRows), 2) == Schedule{4, 5, 2, 3, 6, 6});
  CHECK(plan("future", FutureAttention(kRows), 1) == Schedule{1, 5, 2, 3, 4, 6});
}

TEST_CASE("belady is not optimal where misses have different prices", "[references]") {
  const FutureAttention attention(kRows);
  const double belady = lost(attention, plan("belady", attention, 1));
  const double optimal = lost(attention, plan("optimal", attention, 1));
  CHECK(optimal < belady - 0.1);
}

TEST_CASE("references drop what is too much at the end of a prompt", "[references]") {
  const FutureAttention prompt(kRows, 4, {.mode = Mode::prefill});  // steps 4 and 5 are measured
  // After step 3 remain .3, 1.1, .1, .1: future keeps 1; then 4 goes, with nothing to come.
  CHECK(plan("future", prompt, 1) == Schedule{3, 5, 3, 3, 4, 6});
  CHECK(plan("greedy:h=identity", prompt, 1) == Schedule{3, 5, 3, 3, 4, 6});
  // The next accesses after step 3 are 4, 5, never, never; after step 4 that of 1 alone is to come.
  CHECK(plan("belady", prompt, 2) == Schedule{4, 5, 3, 3, 6, 6});
}

TEST_CASE("h2o-global goes by sums of whole columns", "[references]") {
  // 2.3, 1.9, .8, .6, .4, 0: with one recent token, step 2 drops 1 of 0 and 1, and step 3 drops 2.
  CHECK(plan("h2o-global:recent=1", FutureAttention(kRows), 2) == Schedule{6, 2, 3, 4, 5, 6});
  // Without, the lightest goes, new or not.
  CHECK(plan("h2o-global:recent=0", FutureAttention(kRows), 2) == Schedule{6, 6, 2, 3, 4, 5});
}

// F(S) by its definition.
double value_of(const FutureAttention& attention, Concave h, const std::vector<int>& kept,
                int after) {
  double sum = 0;
  for (int step = std::max(after + 1, attention.first_measured()); step < attention.num_tokens();
       ++step) {
    double attended = 0;
    for (const int token : kept) {
      attended += double{attention.row(step)[static_cast<std::size_t>(token)]};
    }
    sum += value(h, attended);
  }
  return sum;
}

// Whether every removal of greedy's is one that F loses least by, F recomputed each time.
void check_greedy(const FutureAttention& attention, const std::string& name, std::size_t budget) {
  const Schedule schedule = plan("greedy:h=" + name, attention, static_cast<int>(budget));
  const Concave h = parse_concave(name);
  std::vector<int> kept;
  for (int step = 0; step < attention.num_tokens(); ++step) {
    kept.push_back(step);
    if (step < attention.first_eviction()) continue;
    while (kept.size() > budget) {
      double best = -1;
      std::vector<double> left;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        std::vector<int> rest = kept;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
        left.push_back(value_of(attention, h, rest, step));
        best = std::max(best, left.back());
      }
      // One of those that leave now costs no more than the least, but for the rounding of sums in
      // double precision.
      std::size_t chosen = kept.size();
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const bool leaves = schedule[static_cast<std::size_t>(kept[i])] == step;
        if (leaves && left[i] >= best - 1e-11) chosen = i;
      }
      CAPTURE(name, attention.first_measured(), step);
      REQUIRE(chosen < kept.size());
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }
}

TEST_CASE("greedy removes what F loses least by", "[references]") {
  for (const std::string name : {"identity", "sqrt", "log1p"}) {
    for (const int prompt : {0, 9, 18}) {
      for (const std::uint64_t seed : {21U, 22U}) {
        check_greedy(FutureAttention(random_rows(24, seed), prompt, {.mode = Mode::prefill}), name,
                     6);
      }
    }
  }
}

// Its attention is nearly 0 at most steps, where a square root makes much of little: roots in
// single precision decide differently.
TEST_CASE("greedy is exact on a head that looks one period back", "[references]") {
  const Trace trace(std::filesystem::path(KVSIM_SOURCE_DIR) / "traces/sample/tiny-llama.h5");
  const Unit unit = trace.read_unit({"copied-segment", 2, 0});
  check_greedy(FutureAttention(unit, eviction_steps(unit, {}), *make_cpu_backend()), "sqrt", 26);
}

TEST_CASE("a loss of h in vectors is the sum of the losses of h", "[references]") {
  for (const Concave h : {Concave::identity, Concave::sqrt, Concave::log1p}) {
    for (const int count : {0, 1, 3, 4, 7, 255, 257, 700}) {
      std::mt19937_64 bits(static_cast<std::uint64_t>(count));
      std::vector<double> kept;
      std::vector<double> prepared;
      std::vector<float> lost;
      double expected = 0;
      for (int i = 0; i < count; ++i) {
        lost.push_back(static_cast<float>(bits() % 100) / 200);
        // Now and then all that was kept is lost, or by rounding a little more.
        kept.push_back(i % 5 == 0 ? lost.back() * (1 - 1e-15)
                                  : lost.back() + static_cast<double>(bits() % 100) / 200);
        prepared.push_back(prepare(h, kept.back()));
        expected += value(h, kept.back() > 0 ? kept.back() : 0) -
                    value(h, std::max(kept.back() - double{lost.back()}, 0.0));
      }
      CAPTURE(count);
      CHECK(total_loss(h, kept.data(), prepared.data(), lost.data(), count) ==
            Approx(expected).epsilon(1e-12).margin(1e-12));
    }
  }
}

TEST_CASE("greedy with the identity decides as future does", "[references]") {
  for (const std::uint64_t seed : {31U, 32U, 33U}) {
    for (const int prompt : {0, 30}) {
      const FutureAttention attention(random_rows(40, seed), prompt, {.mode = Mode::prefill});
      CHECK(plan("greedy:h=identity", attention, 9) == plan("future", attention, 9));
    }
  }
}

// Sets are bit masks of a ground set of 7 tokens.
double value_of_set(const FutureAttention& attention, Concave h, unsigned set) {
  std::vector<int> tokens;
  for (int token = 0; token < 7; ++token) {
    if ((set >> token & 1U) != 0) tokens.push_back(token);
  }
  return value_of(attention, h, tokens, 6);
}

TEST_CASE("the value of a set is monotone and submodular for every h", "[references]") {
  const FutureAttention attention(random_rows(14, 41));
  for (const Concave h : {Concave::identity, Concave::sqrt, Concave::log1p}) {
    CHECK(value(h, 0) == 0);
    std::vector<double> of;
    for (unsigned set = 0; set < 128; ++set) of.push_back(value_of_set(attention, h, set));
    for (unsigned small = 0; small < 128; ++small) {
      for (unsigned large = 0; large < 128; ++large) {
        if ((small & large) != small) continue;
        REQUIRE(of[large] >= of[small] - 1e-12);
        for (unsigned token = 1; token < 128; token <<= 1U) {
          if ((large & token) != 0) continue;
          REQUIRE(of[small | token] - of[small] >= of[large | token] - of[large] - 1e-12);
        }
      }
    }
  }
}

// H2O Theorem D.17 is about choosing one set: adding the best token k times reaches 1 - 1/e of the
// best set of k. The evicting greedy takes away instead, from a set that was chosen before; the
// theorem does not speak of it.
TEST_CASE("adding greedily reaches 1 - 1/e of the best set", "[references]") {
  for (const std::uint64_t seed : {51U, 52U, 53U, 54U}) {
    const FutureAttention attention(random_rows(16, seed));
    for (const Concave h : {Concave::identity, Concave::sqrt, Concave::log1p}) {
      unsigned chosen = 0;
      for (int size = 1; size <= 5; ++size) {
        unsigned next = 0;
        double best = -1;
        double best_of_size = 0;
        for (unsigned set = 0; set < 128; ++set) {
          const double of_set = value_of_set(attention, h, set);
          if (__builtin_popcount(set) == size) best_of_size = std::max(best_of_size, of_set);
          const bool adds_one = (set & chosen) == chosen && __builtin_popcount(set) == size;
          if (adds_one && of_set > best) {
            best = of_set;
            next = set;
          }
        }
        chosen = next;
        CHECK(best >= (1 - std::exp(-1)) * best_of_size);
      }
    }
  }
}

}  // namespace kvsim::references_test
