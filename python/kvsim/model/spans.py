"""Labelled parts of a text: from characters to the tokens that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecordError
from ..trace.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNFINISHED = "\ufffd"  # what the first bytes of a character decode to


class Offsets(NamedTuple):
    """The tokens of a text, and the characters that each holds, half open.

    Tokens that are parts of one character all hold it. Special tokens that the tokenizer adds hold
    none: both numbers are equal.
    """

    ids: list[int]
    characters: list[tuple[int, int]]


def with_offsets(tokenizer: Any, text: str, add_special_tokens: bool = True) -> Offsets:
    """Tokenises a text and says where its tokens stand.

    A tokenizer without offsets decodes more and more of its tokens instead. Raises RecordError if
    what it decodes is not the text.
    """
    options = {"add_special_tokens": add_special_tokens}
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, return_offsets_mapping=True, **options)
        pairs = [(int(start), int(end)) for start, end in encoded["offset_mapping"]]
        return Offsets(list(encoded["input_ids"]), pairs)
    encoded = tokenizer(text, return_special_tokens_mask=True, **options)
    ids, added = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
    own = [token for token, special in zip(ids, added, strict=True) if not special]
    found = iter(_by_decoding(tokenizer, text, own))
    characters: list[tuple[int, int]] = []
    for special in added:
        end = characters[-1][1] if characters else 0
        characters.append((end, end) if special else next(found))
    return Offsets(ids, characters)


def token_spans(
    characters: Sequence[tuple[int, int]], spans: Iterable[Span], source: str
) -> list[Span]:
    """The tokens that hold any character of each span.

    `characters` are those of Offsets. Raises RecordError for a span that no token holds a character
    of, which names `source`, the text.
    """
    found = []
    for first, end, label in spans:
        holding = [i for i, (a, b) in enumerate(characters) if a < b and a < end and first < b]
        if not holding:
            raise RecordError(
                f"{source}: no token holds a character of the span [{first}, {end}] {label}; "
                "give spans of characters inside the text"
            )
        found.append(Span(holding[0], holding[-1] + 1, label))
    return found


def prompt_tokens(characters: Sequence[tuple[int, int]], prompt_length: int) -> int:
    """How many tokens hold the first `prompt_length` characters, special ones before included.

    A token that holds characters on both sides belongs to the prompt.
    """
    holding = [i for i, (a, b) in enumerate(characters) if a < b and a < prompt_length]
    return holding[-1] + 1 if holding else 0


def _by_decoding(tokenizer: Any, text: str, ids: list[int]) -> list[tuple[int, int]]:
    """What each token adds to the text before it.

    Decoding begins a few tokens earlier, since decoders treat the first token apart; all tokens
    before would take quadratic time.
    """

    def decoded(first: int, end: int) -> str:
        part = ids[first:end]
        return str(tokenizer.decode(part, clean_up_tokenization_spaces=False)) if part else ""

    characters: list[tuple[int, int]] = []
    said = ""
    before, known = 0, 0  # tokens [before, known) have been decoded to whole characters
    for end in range(1, len(ids) + 1):
        old, new = decoded(before, known), decoded(before, end)
        is_last = end == len(ids)
        if not is_last and (len(new) <= len(old) or new.endswith(UNFINISHED)):
            continue  # part of a character, or nothing by itself
        pair = (len(said), len(said) + len(new) - len(old))
        characters += [pair] * (end - known)
        said += new[len(old) :]
        before, known = known, end
    if said != text:
        raise RecordError(
            f"{type(tokenizer).__name__} has no offsets and does not decode its tokens to the text "
            "again; use a fast tokenizer for texts with spans or a prompt"
        )
    return characters
