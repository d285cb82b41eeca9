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

    RULER's metric (its "string match all") for answers of several values. A value is found between
    other letters and digits only as a whole: 12 is not in 123.
    """
    text = generated.lower()
    found = [re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", text) for value in values]
    return sum(match is not None for match in found) / len(values)


def f1(generated: str, reference: str) -> float:
    """The harmonic mean of precision and recall of the reference's words; 0 if none is common."""
    ours, theirs = Counter(words_of(generated)), Counter(words_of(reference))
    common = sum((ours & theirs).values())
    if not common:
        return float(not ours and not theirs)
    return 2 * common / (sum(ours.values()) + sum(theirs.values()))
