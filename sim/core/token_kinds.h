#pragma once

#include <vector>

#include "policies/policy.h"
#include "traces/unit.h"

namespace kvsim {

/// What each token of the unit's sequence is. Special: a name in <..> or [..], such as <s>,
/// <|endoftext|> or [CLS], and in any case the first token. Punctuation: nothing but ASCII
/// punctuation once the marks are gone by which tokenizers write a leading space. Without recorded
/// text all tokens but the first are words.
std::vector<TokenKind> token_kinds(const Unit& unit);

}  // namespace kvsim
