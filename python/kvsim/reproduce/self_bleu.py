"""Self-BLEU, how alike generated texts are: Zhu et al., Texygen, SIGIR 2018, section 3.

BLEU is that of Papineni et al., ACL 2002, section 2.3, on one sentence: the geometric mean of
clipped n-gram precisions, times a penalty for texts shorter than their references. As in Texygen's
program, a precision of 0 counts as 0.1 matches (method 1 of Chen and Cherry, WMT 2014).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

ORDER = 4  # the longest n-grams
_EPSILON = 0.1
_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """The words and the punctuation marks of a text."""
    return _WORD.findall(text)


def bleu(
    hypothesis: Sequence[str], references: Sequence[Sequence[str]], order: int = ORDER
) -> float:
    """BLEU of a list of words against several references, with n-grams up to `order`, 0..1.

    0 where no word is found in a reference.
    """
    logarithms = 0.0
    for n in range(1, order + 1):
        found = _ngrams(hypothesis, n)
        most: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            most |= _ngrams(reference, n)
        matches: float = sum((found & most).values())
        if matches == 0:
            if n == 1:
                return 0.0
            matches = _EPSILON
        logarithms += math.log(matches / max(1, sum(found.values())))
    length = len(hypothesis)
    closest = min((abs(len(each) - length), len(each)) for each in references)[1]
    penalty = min(0.0, 1.0 - closest / length)
    return math.exp(penalty + logarithms / order)


def self_bleu(texts: Sequence[Sequence[str]], order: int = ORDER) -> list[float]:
    """BLEU of each text with all others as its references. Their mean is the Self-BLEU.

    Takes at least two texts.
    """
    if len(texts) < 2:
        raise ValueError(f"Self-BLEU takes at least 2 texts, found {len(texts)}")
    return [
        bleu(text, [*texts[:index], *texts[index + 1 :]], order) for index, text in enumerate(texts)
    ]


def _ngrams(text: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1))
