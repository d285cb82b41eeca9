"""Sentences with a number, hidden in prose: the needle tasks of RULER (section 3).

An item is a word of the haystack.
"""

from __future__ import annotations

import random

from ...trace.spans import Span
from .conversation import Turn
from .haystack import Needle, hide
from .sample import ASKED, OTHER, Build, Content, Setting, drawn_depth, listed, numbers
from .words import pairs

START = "Read the text, and remember each magic number in it.\n\n"
FEWEST_KEYS = 4  # of niah-multikey
SEVERAL = 4  # values, or queries


def niah_single(draw: random.Random, setting: Setting) -> Build:
    """One needle, which is asked for."""
    (key,), (number,) = pairs(draw, 1), numbers(draw, 1)
    drawn = drawn_depth(draw)
    depth = drawn if setting.depth is None else setting.depth
    needle = (depth, _sentence(key, number), ASKED)
    return _builder(draw, setting, [needle], [_one(key, number)], depth)


def niah_multikey(draw: random.Random, setting: Setting) -> Build:
    """Needles of several keys; each turn asks for one of them."""
    count = max(FEWEST_KEYS, setting.turns)
    keys, of_keys = pairs(draw, count), numbers(draw, count)
    depths = [drawn_depth(draw) for _ in keys]
    needles = [
        (depth, _sentence(key, number), ASKED if place < setting.turns else OTHER)
        for place, (depth, key, number) in enumerate(zip(depths, keys, of_keys, strict=True))
    ]
    turns = [_one(key, number) for key, number in zip(keys, of_keys, strict=True)]
    depth = depths[0] if setting.turns == 1 else None
    return _builder(draw, setting, needles, turns[: setting.turns], depth)


def niah_multivalue(draw: random.Random, setting: Setting) -> Build:
    """Several needles of one key, asked for together, in the order of the text."""
    (key,), values = pairs(draw, 1), numbers(draw, SEVERAL)
    depths = sorted(drawn_depth(draw) for _ in values)
    needles = [(d, _sentence(key, value), ASKED) for d, value in zip(depths, values, strict=True)]
    turn = Turn(
        f"Question: What are the {SEVERAL} magic numbers of {key}, in the order of the text?",
        values,
        f"\nAnswer: The magic numbers of {key} are",
    )
    return _builder(draw, setting, needles, [turn], None)


def niah_multiquery(draw: random.Random, setting: Setting) -> Build:
    """Needles of several keys, asked for together, in the order of the question."""
    keys, values = pairs(draw, SEVERAL), numbers(draw, SEVERAL)
    needles = [
        (drawn_depth(draw), _sentence(key, value), ASKED)
        for key, value in zip(keys, values, strict=True)
    ]
    asked = listed(keys)
    turn = Turn(
        f"Question: What are the magic numbers of {asked}, in this order?",
        values,
        f"\nAnswer: The magic numbers of {asked} are",
    )
    return _builder(draw, setting, needles, [turn], None)


def _sentence(key: str, number: str) -> str:
    return f"The magic number of {key} is {number}."


def _one(key: str, number: str) -> Turn:
    return Turn(
        f"Question: What is the magic number of {key}?",
        number,
        f"\nAnswer: The magic number of {key} is",
    )


def _builder(
    draw: random.Random,
    setting: Setting,
    needles: list[Needle],
    turns: list[Turn],
    depth: float | None,
) -> Build:
    first = draw.randrange(len(setting.haystack))

    def build(words: int) -> Content:
        text, spans = hide(setting.haystack.excerpt(first, words), needles)
        moved = (Span(a + len(START), b + len(START), label) for a, b, label in spans)
        return Content(START + text, tuple(turns), tuple(moved), depth)

    return build
