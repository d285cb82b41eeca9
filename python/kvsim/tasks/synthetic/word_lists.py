"""Lists of words of which some occur more often: common and frequent words (RULER, section 3)."""

from __future__ import annotations

import math
import random
import string
from itertools import islice

from .conversation import Turn
from .sample import Build, Content, Setting
from .words import vocabulary

COMMON = 10  # words that are asked for
LONG = 4096  # tokens, from which on words occur OFTEN times, else SELDOM times
OFTEN, SELDOM = (30, 3), (6, 1)  # a common word, another one
FREQUENT = 3  # coded words that are asked for
LETTERS = 6  # of a coded word
ALPHA, ZETA = 2.0, math.pi**2 / 6  # the Zeta distribution, and zeta(2)
DOTS = "..."  # the most frequent word, which does not count
TOKENS_A_WORD = 50  # of the length, for each coded word


def common_words(draw: random.Random, setting: Setting) -> Build:
    """A numbered list; the ten words that occur most often are asked for. An item is another word.

    They occur equally often, so they are asked for in the order of the list.
    """
    often, seldom = OFTEN if setting.length >= LONG else SELDOM
    seed = draw.getrandbits(64)
    words = vocabulary(draw)
    common = list(islice(words, COMMON))
    others: list[str] = []

    def build(items: int) -> Content:
        others.extend(islice(words, max(items - len(others), 0)))
        entries = common * often + others[:items] * seldom
        random.Random(seed).shuffle(entries)
        numbered = " ".join(f"{number}. {word}" for number, word in enumerate(entries, 1))
        turn = Turn(
            f"Question: Which {COMMON} words occur most often, in the order in which the list "
            "begins to name them?",
            sorted(common, key=entries.index),
            "\nAnswer: The words that occur most often are",
        )
        start = f"In this list {COMMON} words occur more often than all others. Remember them.\n\n"
        return Content(start + numbered, (turn,))

    return build


def frequent_words(draw: random.Random, setting: Setting) -> Build:
    """Coded words whose frequency falls with their rank; the most frequent three are asked for.

    Rank k has the share k^-ALPHA / zeta(ALPHA) of all words, rounded down, and the first rank is
    dots. An item is a word more in all. There are so many at least that the words that are asked
    for differ in frequency from each other and from the next one.
    """
    shares = _shares(max(setting.length // TOKENS_A_WORD, FREQUENT + 2))
    fewest = math.ceil(1 / (shares[FREQUENT] - shares[FREQUENT + 1]))
    ranks = [DOTS, *_coded(draw, len(shares) - 1)]
    seed = draw.getrandbits(64)
    turn = Turn(
        f"Question: Which {FREQUENT} words occur most often, from the most frequent one on? The "
        f"dots {DOTS} do not count.",
        ranks[1 : 1 + FREQUENT],
        "\nAnswer: The words that occur most often are",
    )
    start = f"Count how often each coded word occurs. The dots {DOTS} do not count.\n\n"

    def build(items: int) -> Content:
        words = []
        for word, share in zip(ranks, shares, strict=True):
            words += [word] * int((fewest + items) * share)
        random.Random(seed).shuffle(words)
        return Content(start + " ".join(words), (turn,))

    return build


def _shares(ranks: int) -> list[float]:
    """Of each rank in the Zeta distribution, the first one on."""
    return [rank**-ALPHA / ZETA for rank in range(1, ranks + 1)]


def _coded(draw: random.Random, count: int) -> list[str]:
    """Different words of random letters."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choices(string.ascii_lowercase, k=LETTERS))] = None
    return list(found)
