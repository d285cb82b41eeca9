#pragma once

#include <string_view>
#include <vector>

#include "policies/interface/policy.h"
#include "traces/unit.h"

namespace kvsim {

/// The kind of a token other than the first of a text.
TokenKind token_kind(std::string_view text);

/// The kind of each token of the unit. Special: a name in <..> or [..], such as <s>, <|endoftext|>
/// or [CLS], and always the first token. Punctuation: only ASCII punctuation after the tokenizer's
/// mark for a leading space, if any. Without recorded text all tokens but the first are words.
std::vector<TokenKind> token_kinds(const Unit& unit);

}  // namespace kvsim
