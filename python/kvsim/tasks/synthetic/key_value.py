"""Pairs of keys and values as JSON, of which some are asked for (Lost in the Middle, section 3)."""

from __future__ import annotations

import random

from ...trace.spans import Span
from .conversation import Turn
from .sample import ASKED, Build, Content, Setting, drawn_depth, numbers

DIGITS = 8  # of a key, in base 16, as the first group of a UUID
START = "Read the pairs of keys and values.\n\n"
BETWEEN = ",\n "


def key_value(draw: random.Random, setting: Setting) -> Build:
    """An object of JSON; each turn asks for the value of a key. An item is another pair."""
    depths = [drawn_depth(draw) for _ in range(setting.turns)]
    pairs: dict[str, str] = {}  # those that are asked for come first

    def draw_until(count: int) -> list[tuple[str, str]]:
        while len(pairs) < count:
            key = f"{draw.getrandbits(4 * DIGITS):0{DIGITS}x}"
            pairs.setdefault(key, *numbers(draw, 1))
        return list(pairs.items())[:count]

    asked = draw_until(setting.turns)
    turns = tuple(
        Turn(f'Question: What is the value of the key "{key}"?', value, f'\nAnswer: "{key}":')
        for key, value in asked
    )

    def build(items: int) -> Content:
        entries = [(pair, "") for pair in draw_until(setting.turns + items)[setting.turns :]]
        of_depth = sorted(zip(depths, asked, strict=True))
        for before, (depth, pair) in enumerate(of_depth):
            entries.insert(before + round(depth * items), (pair, ASKED))
        text, spans = START + "{", []
        for number, ((key, value), label) in enumerate(entries):
            text += BETWEEN if number else ""
            entry = f'"{key}": {value}'
            if label:
                spans.append(Span(len(text), len(text) + len(entry), label))
            text += entry
        depth = depths[0] if setting.turns == 1 else None
        return Content(text + "}", turns, tuple(spans), depth)

    return build
