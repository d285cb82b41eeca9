#include "analysis/asked_facts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "sim/replay/answer_steps.h"

namespace kvsim {
namespace {

std::span<const std::int32_t> ids_of(const Unit& unit, const Span& span) {
  return std::span(unit.token_ids).subspan(span.start, span.end - span.start);
}

/// Where the needle states the answer: the first token of the last place.
std::optional<int> place_in(const Unit& unit, const Span& needle, const Span& answer) {
  const auto ids = ids_of(unit, needle);
  const auto wanted = ids_of(unit, answer);
  const auto place = std::find_end(ids.begin(), ids.end(), wanted.begin(), wanted.end());
  if (place == ids.end()) return std::nullopt;
  return needle.start + static_cast<int>(place - ids.begin());
}

/// The question before the answer; empty without one.
std::span<const std::int32_t> question_of(const Unit& unit, const Span& answer) {
  const Span* question = nullptr;
  for (const Span& span : unit.spans) {
    if (span.label != "question" || span.end > answer.start) continue;
    if (question == nullptr || span.end > question->end) question = &span;
  }
  if (question == nullptr) return {};
  return ids_of(unit, *question);
}

/// The tokens of the question that the needle has.
std::ptrdiff_t shared_tokens(const Unit& unit, const Span& needle,
                             std::span<const std::int32_t> question) {
  const auto ids = ids_of(unit, needle);
  return std::count_if(question.begin(), question.end(), [&](std::int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  });
}

std::vector<int> tokens_from(int first, int count) {
  std::vector<int> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace

std::vector<AskedFact> asked_facts(const Unit& unit, int first_measured) {
  std::vector<AskedFact> facts;
  for (const Span& answer : unit.spans) {
    if (answer.label != "answer") continue;
    AskedFact fact{.steps = answer_steps({&answer, 1}, first_measured), .needle = {}, .answer = {}};
    if (fact.steps.empty()) continue;
    const auto question = question_of(unit, answer);
    const Span* best = nullptr;
    const auto rank = [&](const Span& needle) {
      return std::pair(shared_tokens(unit, needle, question), needle.start);
    };
    for (const Span& needle : unit.spans) {
      if (needle.label != "needle" || needle.end >= answer.start) continue;
      if (!place_in(unit, needle, answer)) continue;
      if (best == nullptr || rank(needle) > rank(*best)) best = &needle;
    }
    if (best != nullptr) {
      fact.needle = tokens_from(best->start, best->end - best->start);
      fact.answer = tokens_from(*place_in(unit, *best, answer), answer.end - answer.start);
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

}  // namespace kvsim
