#include "sim/tiers/fetch.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "sim/base/errors.h"
#include "sim/replay/replay.h"
#include "tests/support/compare.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::tiers_test::fetch_test {

using test_support::close;
using test_support::random_unit;
using test_support::ReferenceUnit;

const std::vector<Replacement> kAll = parse_replacements("all", "--replace");

std::vector<Fetches> fetches(const Unit& unit, const std::string& selectors, FetchOptions options) {
  const std::vector<std::string> lists{selectors};
  return fetches_of({&unit, 1}, false, parse_selectors(lists), options, *make_cpu_backend())
      .units.front();
}

std::vector<Amount> sizes(const std::vector<std::string>& texts) {
  std::vector<Amount> amounts;
  for (const std::string& text : texts) amounts.push_back(Amount::parse(text, "--resident"));
  return amounts;
}

const Unit kUnit = random_unit({.tokens = 90, .head_dim = 6, .group = 2, .prompt_length = 30}, 5);

TEST_CASE("tiers: topk of single tokens loses what the policy topk loses at this budget") {
  const Unit with_sink =
      random_unit({.tokens = 70, .group = 2, .prompt_length = 30, .sink_logit = 1.0F}, 2);
  Unit with_window = random_unit({.tokens = 70, .group = 2, .prompt_length = 30}, 3);
  with_window.sliding_window = 20;
  with_window.logit_softcap = 2.0F;
  const Unit selecting = random_unit({.tokens = 70, .prompt_length = 30, .selected = 12}, 4);
  for (const Unit* unit :
       std::vector{&kUnit, &with_sink, &std::as_const(with_window), &selecting}) {
    for (const Mode mode : {Mode::stream, Mode::prefill}) {
      const FetchOptions options{
          .protocol = {.mode = mode}, .resident = sizes({"20"}), .replace = kAll};
      const SelectionQuality found = fetches(*unit, "topk:k=7", options)[0].quality;
      const Result row =
          replay(*unit, {{Spec("topk"), 7}}, {.protocol = {.mode = mode}}, *make_cpu_backend())[0]
              .result;
      CHECK(found.steps == row.steps);
      CHECK(close(found.attention_recall, *row.attention_recall, 1e-9));
      CHECK(close(found.output_error_sq, *row.output_error_sq, 1e-9));
      CHECK(found.topk_overlap == 1);
    }
  }
}

TEST_CASE(
    "tiers: masses are the attention among what a step attends to, after all of the prompt's") {
  const ReferenceUnit reference(kUnit);
  const auto backend = make_cpu_backend();
  ReplayedUnit replayed(kUnit, *backend, {.mode = Mode::prefill});
  AttendedPages pages(SelectorSpec("quest:k=8,page=4"), replayed, true, 0);
  std::vector<PageAttention> attention(kBlockSteps, PageAttention(kUnit, 4));
  for (int step = 0; step < 90; step += kBlockSteps) {
    const int count = std::min(kBlockSteps, 90 - step);
    replayed.compute(step, count);
    for (int row = 0; row < count; ++row) attention[row].sum(replayed.block(), row);
    pages.add_block(attention);
  }
  const PageChoices& choices = pages.choices();
  std::vector<double> of_prompt(23);
  for (int step = 0; step < 30; ++step) {
    for (int j = 0; j <= step; ++j) {
      for (const auto& head : reference.heads) of_prompt[j / 4] += head.full[step][j] / 2;
    }
  }
  for (int page = 0; page < 23; ++page) {
    CHECK(choices.prompt_mass[page] == Approx(of_prompt[page]).epsilon(1e-5).margin(1e-9));
  }
  for (int step = 30; step < 90; ++step) {
    std::vector<int> tokens;
    for (const int page : choices.at(step)) {
      for (int i = 0; i < 4; ++i) tokens.push_back(page * 4 + i);
    }
    for (int j = step / 4 * 4; j <= step; ++j) tokens.push_back(j);
    std::vector<double> mass(23);
    for (const auto& head : reference.heads) {
      std::vector<double> weight = test_support::softmax(head.logit[step], tokens);
      for (std::size_t i = 0; i < tokens.size(); ++i) mass[tokens[i] / 4] += weight[i] / 2;
    }
    for (std::int64_t i = choices.end[step]; i < choices.end[step + 1]; ++i) {
      CHECK(choices.mass[i] == Approx(mass[choices.pages[i]]).epsilon(1e-4));
    }
    CHECK(choices.own_mass[step - 30] == Approx(mass[step / 4]).epsilon(1e-4));
  }
}

TEST_CASE("tiers: recall, error, overlaps and bytes are what their definitions say") {
  const ReferenceUnit reference(kUnit);
  const auto found = fetches(kUnit, "quest:k=8,page=4",
                             {.resident = sizes({"16"}), .replace = {Replacement::belady}})[0];
  // The choice itself is tested with the selectors: here topk stands for it.
  const auto exact = fetches(kUnit, "topk:k=8,page=4",
                             {.resident = sizes({"16"}), .replace = {Replacement::belady}})[0];
  double recall = 0;
  double error = 0;
  double attended = 0;
  double overlap = 0;
  std::vector<int> before;
  for (int step = 0; step < 90; ++step) {
    const int own = step / 4;
    std::vector<double> score(static_cast<std::size_t>(own));
    for (const auto& head : reference.heads) {
      for (int j = 0; j < own * 4; ++j) score[j / 4] += head.full[step][j];
    }
    std::vector<int> pages(static_cast<std::size_t>(own));
    for (int page = 0; page < own; ++page) pages[page] = page;
    std::sort(pages.begin(), pages.end(), [&](int a, int b) { return score[a] > score[b]; });
    pages.resize(std::min(own, 2));
    int again = 0;
    for (const int page : pages)
      again += static_cast<int>(std::count(before.begin(), before.end(), page));
    if (!before.empty()) overlap += static_cast<double>(again) / std::ssize(before);
    before = pages;
    std::vector<int> tokens;
    std::sort(pages.begin(), pages.end());
    for (const int page : pages) {
      for (int i = 0; i < 4; ++i) tokens.push_back(page * 4 + i);
    }
    for (int j = own * 4; j <= step; ++j) tokens.push_back(j);
    attended += static_cast<double>(tokens.size());
    for (const auto& head : reference.heads) {
      for (const int j : tokens) recall += head.full[step][j] / 2;
      const auto weight = test_support::softmax(head.logit[step], tokens);
      const auto output = test_support::weighted_value(kUnit, tokens, weight);
      for (std::size_t d = 0; d < output.size(); ++d) {
        error += (output[d] - head.output[step][d]) * (output[d] - head.output[step][d]) / 2;
      }
    }
  }
  CHECK(close(exact.quality.attention_recall, recall / 90, 1e-6));
  CHECK(close(exact.quality.output_error_sq, error / 90, 1e-4));
  CHECK(exact.quality.attended_mean == Approx(attended / 90));
  CHECK(*exact.quality.step_overlap == Approx(overlap / 85));  // steps 5 .. 89
  CHECK(exact.quality.topk_overlap == 1);
  CHECK(exact.quality.summary_bytes == 0);
  CHECK(exact.quality.accesses == 4 * 1 + 82 * 2);
  CHECK(exact.page_bytes == 4 * (6 + 4) * 4);
  CHECK(found.quality.accesses == exact.quality.accesses);
  CHECK(found.quality.attention_recall < exact.quality.attention_recall);
  CHECK(*found.quality.topk_overlap < 1);
  CHECK(found.quality.summary_bytes == 22 * 2 * 6 * 4);
}

TEST_CASE("tiers: top-p attends to its share at every step") {
  const auto found = fetches(kUnit, "top-p:p=0.9;top-p:p=1", {.replace = kAll, .curve = true});
  CHECK(found[0].quality.attention_recall >= 0.9);
  CHECK(found[0].quality.attended_mean < found[1].quality.attended_mean);
  CHECK(found[1].quality.attention_recall == Approx(1));
}

TEST_CASE("tiers: a curve has every size, and its rows are those of single sizes") {
  for (const char* selector : {"topk:k=5", "quest:k=8,page=4", "top-p:p=0.6,page=2"}) {
    const auto curve = fetches(kUnit, selector, {.replace = kAll, .curve = true})[0];
    const int page = SelectorSpec(selector).page();
    CHECK(curve.caches.back().resident.tokens == (90 + page - 1) / page * page);
    CHECK(curve.caches.back().misses.sum == 0);
    for (std::size_t i = 0; i < curve.caches.size(); i += 7) {
      const FetchedAt& at = curve.caches[i];
      const auto one = fetches(
          kUnit, selector,
          {.resident = sizes({std::to_string(at.resident.tokens)}), .replace = {at.replace}})[0];
      CHECK(one.caches[0].misses.sum == at.misses.sum);
      CHECK(one.caches[0].misses.p95 == at.misses.p95);
    }
  }
}

TEST_CASE("tiers: selectors together are as alone") {
  const FetchOptions options{.resident = sizes({"40"}), .replace = kAll};
  const auto together = fetches(kUnit, "topk:k=5;quest:k=8,page=4;sparq:k=8,page=4", options);
  const auto alone = fetches(kUnit, "sparq:k=8,page=4", options);
  CHECK(together[2].quality.output_error_sq == alone[0].quality.output_error_sq);
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    CHECK(together[2].caches[i].misses.sum == alone[0].caches[i].misses.sum);
  }
}

TEST_CASE("tiers: shares become the nearest size that is enough, numbers have to be one") {
  const SelectorSpec quest("quest:k=20,page=8");
  std::vector<std::pair<int, std::string>> found;
  for (const ResidentSize& size :
       resident_sizes(sizes({"50%", "0.44", "1%", "40", "32"}), quest, 24, 100, "a")) {
    found.emplace_back(size.tokens, size.request);
  }
  CHECK(found == std::vector<std::pair<int, std::string>>{{32, "1%"}, {40, "40"}, {48, "50%"}});
  using Catch::Contains;
  CHECK_THROWS_WITH(check_resident(sizes({"44"})[0], quest),
                    Contains("multiple of the page of 8") && Contains("write 48"));
  CHECK_THROWS_WITH(check_resident(sizes({"24"})[0], quest), Contains("expected at least 32"));
  CHECK_NOTHROW(check_resident(sizes({"32"})[0], quest));
  CHECK_NOTHROW(check_resident(sizes({"8"})[0], SelectorSpec("top-p:page=8")));
  CHECK_THROWS_WITH(
      fetches(kUnit, "top-p:p=1", {.resident = sizes({"12"}), .replace = kAll}),
      Contains("up to 89 older tokens of sequence") && Contains("expected at least 90"));
}

}  // namespace kvsim::tiers_test::fetch_test
