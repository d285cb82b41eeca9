#include "sim/attention/token_kinds.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace kvsim {
namespace {

// A space, and its encodings by SentencePiece (U+2581) and byte-level BPE (U+0120).
constexpr std::array<std::string_view, 3> kSpaces = {" ", "\xe2\x96\x81", "\xc4\xa0"};

std::string_view without_leading_space(std::string_view text) {
  for (const std::string_view space : kSpaces) {
    if (text.starts_with(space)) return text.substr(space.size());
  }
  return text;
}

bool is_name_between(std::string_view text, char open, char close) {
  return text.size() > 2 && text.front() == open && text.back() == close &&
         std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c); });
}

}  // namespace

TokenKind token_kind(std::string_view text) {
  if (is_name_between(text, '<', '>') || is_name_between(text, '[', ']')) return TokenKind::special;
  const std::string_view word = without_leading_space(text);
  const bool is_punctuation =
      !word.empty() &&
      std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::ispunct(c); });
  return is_punctuation ? TokenKind::punctuation : TokenKind::word;
}

std::vector<TokenKind> token_kinds(const Unit& unit) {
  std::vector<TokenKind> kinds;
  for (const std::string& text : unit.token_text) kinds.push_back(token_kind(text));
  kinds.resize(unit.num_tokens(), TokenKind::word);
  kinds.front() = TokenKind::special;
  return kinds;
}

}  // namespace kvsim
