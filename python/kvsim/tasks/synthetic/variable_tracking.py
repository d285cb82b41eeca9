"""Assignments of variables hidden in prose, which hand on one value (RULER, section 3).

An item is a word of the haystack.
"""

from __future__ import annotations

import random
import string
from itertools import pairwise

from ...trace.spans import Span
from .conversation import Turn
from .haystack import hide
from .sample import ASKED, Build, Content, Setting, drawn_depth, numbers

HOPS = 4  # assignments after the first
LETTERS = 5  # of a name
START = "Read the text, and follow the variables that are assigned in it.\n\n"


def variable_tracking(draw: random.Random, setting: Setting) -> Build:
    """A chain of HOPS + 1 variables, in the order of the text; all of them are asked for."""
    (value,) = numbers(draw, 1, digits=5)
    names = variable_names(draw, HOPS + 1, LETTERS)
    sentences = [f"VAR {names[0]} = {value}."]
    sentences += [f"VAR {new} = VAR {old}." for old, new in pairwise(names)]
    depths = sorted(drawn_depth(draw) for _ in names)
    needles = [(d, sentence, ASKED) for d, sentence in zip(depths, sentences, strict=True)]
    first = draw.randrange(len(setting.haystack))
    turn = Turn(
        f"Question: Which {len(names)} variables hold the value {value}, in the order of the text?",
        names,
        f"\nAnswer: The variables that hold the value {value} are",
    )

    def build(words: int) -> Content:
        text, spans = hide(setting.haystack.excerpt(first, words), needles)
        moved = (Span(a + len(START), b + len(START), label) for a, b, label in spans)
        return Content(START + text, (turn,), tuple(moved))

    return build


def variable_names(draw: random.Random, count: int, letters: int) -> list[str]:
    """Different names of so many capital letters."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choices(string.ascii_uppercase, k=letters))] = None
    return list(found)
