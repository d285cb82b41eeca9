"""What the engine declares of the tables of result files and their columns."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def tables() -> dict[str, dict[str, Any]]:
    """By table or view: `shows`, `source`, and by column `about`, its meaning, `signs`, `types`, as
    INTEGER, and `units`, which may be empty."""
    from .. import _engine

    return _engine.result_tables()


def sign(measure: str) -> int:
    """+1 where more is better, -1 where less is, 0 where neither is.

    `measure` is a column of replay, layer_error, closed_loop or regret, the share of answers, or
    calibrated_kl, or the score of tasks.
    """
    derived = {"answers_share": "answers_right", "score": "answers_right"}
    column = (derived | {"calibrated_kl": "kl_mean"}).get(measure, measure)
    names = ("replay", "layer_error", "closed_loop", "regret")
    return next(signs[column] for name in names if column in (signs := tables()[name]["signs"]))


def better(measure: str) -> str:
    """Which values are better, in words."""
    return {1: "higher is better", -1: "lower is better", 0: "none is better"}[sign(measure)]
