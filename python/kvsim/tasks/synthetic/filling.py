"""Lengths in tokens, and the most items of a text that fit into one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ...errors import UsageError

Count = Callable[[str], int]  # how many tokens a text has
Line = TypeVar("Line")

_MARK = re.compile(r"\w+|[^\w\s]")
FIRST_GUESS, GUESSES = 16, 3  # items; of how many texts


def counter(tokenizer: Any = None) -> Count:
    """How tokens are counted: by a tokenizer, or one of a model that is named.

    With its special tokens, as a model reads a text. None: words and punctuation marks.

    Raises RecordError for a tokenizer that cannot be loaded.
    """
    if tokenizer is None:
        return lambda text: sum(1 for _ in _MARK.finditer(text))
    if isinstance(tokenizer, (str, Path)):
        from ...model.loading import load_tokenizer

        tokenizer = load_tokenizer(str(tokenizer))
    return lambda text: len(tokenizer(text)["input_ids"])


def filled(
    build: Callable[[int], Line], size_of: Callable[[Line], int], most: int, place: str
) -> Line:
    """`build(items)` with the most items, 0 or more, whose size is at most `most` tokens.

    An item makes a text longer, by about a token or more. Sizes grow evenly, so that guesses from
    two of them are close; steps away from the last guess double.

    Raises UsageError, which begins with `place`, if the text without items is too long.
    """
    best = build(0)
    least = size_of(best)
    if least > most:
        raise UsageError(f"{place}: expected {least} tokens or more, found {most}")
    fits, too_many = 0, most - least + 1
    guess, step, guesses = FIRST_GUESS, 1, 1
    while too_many - fits > 1:
        guess = min(max(guess, fits + 1), too_many - 1)
        line = build(guess)
        size = size_of(line)
        if size <= most:
            best, fits = line, guess
        else:
            too_many = guess
        if guesses < GUESSES and size > least:
            guess = guess * (most - least) // (size - least)
            guesses += 1
            continue
        guess += step if size <= most else -step
        step *= 2
        if not fits < guess < too_many:
            guess = (fits + too_many) // 2
    return best
