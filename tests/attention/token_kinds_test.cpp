#include "sim/attention/token_kinds.h"

#include <catch2/catch.hpp>

#include "tests/support/units.h"

namespace kvsim::token_kinds_test {

std::vector<TokenKind> kinds_of(const std::vector<std::string>& text) {
  Unit unit = test_support::random_unit({.tokens = static_cast<int>(text.size())}, 1);
  unit.token_text = text;
  return token_kinds(unit);
}

constexpr auto kWord = TokenKind::word;
constexpr auto kPunctuation = TokenKind::punctuation;
constexpr auto kSpecial = TokenKind::special;

TEST_CASE("names in brackets are special, and so is the first token", "[kinds]") {
  CHECK(kinds_of({"The", "<s>", "<|endoftext|>", "[CLS]", "</s>", "<unk>"}) ==
        std::vector<TokenKind>{kSpecial, kSpecial, kSpecial, kSpecial, kSpecial, kSpecial});
}

TEST_CASE("punctuation is punctuation however a tokenizer writes the space before it", "[kinds]") {
  CHECK(kinds_of({"<s>", ".", " ,", "\xe2\x96\x81(", "\xc4\xa0...", "<", "<>", "[]"}) ==
        std::vector<TokenKind>{kSpecial, kPunctuation, kPunctuation, kPunctuation, kPunctuation,
                               kPunctuation, kPunctuation, kPunctuation});
}

TEST_CASE("anything else is a word", "[kinds]") {
  CHECK(kinds_of({"<s>", "a.", "\xe2\x96\x81the", " ", "\n", "", "<0", "7", "\xc3\xa9"}) ==
        std::vector<TokenKind>{kSpecial, kWord, kWord, kWord, kWord, kWord, kWord, kWord, kWord});
}

TEST_CASE("without text all tokens but the first are words", "[kinds]") {
  Unit unit = test_support::random_unit({.tokens = 3}, 1);
  CHECK(token_kinds(unit) == std::vector<TokenKind>{kSpecial, kWord, kWord});
}

}  // namespace kvsim::token_kinds_test
