"""What a generated answer is worth."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = {"a", "an", "the"}
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words_of(text: str) -> list[str]:
    """Its words in lower case, without punctuation and articles, as SQuAD's evaluation counts."""
    return [w for w in text.lower().translate(_PUNCTUATION).split() if w not in _ARTICLES]


def exact(generated: str, reference: str) -> float:
    """1 if both have the same words in the same order, else 0."""
    return float(words_of(generated) == words_of(reference))


def contains(generated: str, values: Sequence[str]) -> float:
    """The share of the values that the generated text contains, upper or lower case.

    RULER's metric for answers of several values, with one difference: a number is not found in a
    longer one, nor a Latin word in another, as 12 in 123.
    """
    text = generated.lower()
    return sum(re.search(_whole(value.lower()), text) is not None for value in values) / len(values)


def f1(generated: str, reference: str) -> float:
    """The harmonic mean of precision and recall of the reference's words; 0 if none is common."""
    ours, theirs = Counter(words_of(generated)), Counter(words_of(reference))
    common = sum((ours & theirs).values())
    if not common:
        return float(not ours and not theirs)
    return 2 * common / (sum(ours.values()) + sum(theirs.values()))


def _whole(value: str) -> str:
    """A pattern of the value, without a neighbour of the same kind at its ends."""
    before, after = _kind(value[0]), _kind(value[-1])
    return (
        (f"(?<!{before})" if before else "") + re.escape(value) + (f"(?!{after})" if after else "")
    )


def _kind(letter: str) -> str:
    return next((kind for kind in (r"\d", "[a-z]") if re.fullmatch(kind, letter)), "")
