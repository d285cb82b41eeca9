"""What a task makes of a draw: a context of so many items, and what is asked about it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ...trace.spans import Span
from .conversation import Turn
from .haystack import Haystack

ASKED, OTHER = "needle", "distractor"  # labels of what an answer is in, and of its like


@dataclass(frozen=True)
class Setting:
    """What a sample is drawn for."""

    length: int  # tokens
    haystack: Haystack
    turns: int = 1
    depth: float | None = None  # None: drawn


@dataclass(frozen=True)
class Content:
    """What a line is laid out from."""

    context: str
    turns: tuple[Turn, ...]
    spans: tuple[Span, ...] = ()
    depth: float | None = None


# More items make the context longer, and change nothing else that was drawn.
Build = Callable[[int], Content]
Task = Callable[[random.Random, Setting], Build]


def numbers(draw: random.Random, count: int, digits: int = 7) -> list[str]:
    """So many different numbers."""
    return [str(n) for n in draw.sample(range(10 ** (digits - 1), 10**digits), count)]


def drawn_depth(draw: random.Random) -> float:
    """In hundredths, from 0 to 1."""
    return draw.randrange(101) / 100


def listed(words: list[str]) -> str:
    """As in "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
