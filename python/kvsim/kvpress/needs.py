"""What a press reads of a trace, found by trying it on made-up tokens."""

from __future__ import annotations

import copy
import dataclasses
import importlib
from typing import Any

import numpy as np

from ..errors import UsageError
from .press_inputs import PressFailure, call_press, default_rotation

# A press may ask for more tokens than its window holds, and read more of longer texts.
_TRIED_TOKENS = (48, 200, 1100)


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a press reads in addition to keys.

    Attributes:
        rows: of attention, the last so many; 0: none; None: all.
        values: whether it reads values.
        queries: whether it reads queries, or keys before rotation, by projecting hidden states.
    """

    __module__ = "kvsim.kvpress"  # a pickle of it is in digests of code: it must not change

    rows: int | None
    values: bool
    queries: bool

    @property
    def prompt_only(self) -> bool:
        """Whether it reads of every token what only a prompt that attended in full has."""
        return self.queries or self.rows is None


def rows_of(press: Any, otherwise: int | None) -> int | None:
    """How many last rows of attention a press reads, of those known to read some."""
    presses = importlib.import_module("kvpress")
    if isinstance(press, presses.SnapKVPress):
        return press.window_size
    return 1 if isinstance(press, presses.TOVAPress) else otherwise


def needs_of(press: Any) -> Needs:
    """Tries the press on made-up tokens. UsageError if it needs what a policy cannot give."""
    found: list[Needs] = []
    failure = None
    for tokens in _TRIED_TOKENS:
        try:
            found.append(_tried(press, tokens))
        except PressFailure as error:
            failure = error
            if error.is_final:
                break
    if not found or (failure is not None and failure.is_final):
        raise UsageError(f"{type(press).__name__}: {failure}")
    return Needs(
        None if any(each.rows is None for each in found) else max(each.rows for each in found),
        any(each.values for each in found),
        any(each.queries for each in found),
    )


def _tried(press: Any, tokens: int) -> Needs:
    """What the press reads of so many tokens: attention if it is known to, or fails without."""
    rows = rows_of(press, 0)
    try:
        return _tried_with(press, tokens, rows)
    except PressFailure as error:
        if error.is_final or rows != 0:
            raise
    return _tried_with(press, tokens, None)


def _tried_with(press: Any, tokens: int, rows: int | None) -> Needs:
    heads, dim = 2, 8
    random = np.random.default_rng(0)
    press = copy.deepcopy(press)
    press.compression_ratio = 0.5
    keys, values = random.standard_normal((2, tokens, dim), dtype=np.float32)
    queries = random.standard_normal((heads, tokens, dim), dtype=np.float32)
    attention = None
    if rows != 0:
        attention = np.tril(random.random((tokens, tokens), dtype=np.float32))
        attention = (attention / attention.sum(1, keepdims=True))[-(rows or tokens) :]
    used: set[str] = set()

    def scores(values):
        return call_press(press, keys, values, attention, queries, default_rotation(dim), used)

    found = scores(values)
    if not np.array_equal(found, scores(values)):
        raise PressFailure("its scores differ from call to call", is_final=True)
    reads_values = not np.array_equal(found, scores(np.full_like(values, np.nan)))
    return Needs(rows, reads_values, "queries" in used)
