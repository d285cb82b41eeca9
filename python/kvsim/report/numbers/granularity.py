"""What recall is lost because whole pages leave, or all heads of a layer keep the same tokens."""

from __future__ import annotations

import pandas as pd

from ...bootstrap import UNIT
from .averages import OPTIMAL
from .frames import Comparison
from .intervals import Intervals

TOKENS = "tokens"  # the optimum that evicts token by token, in each head for itself
SHARED = "+shared"


def token_mode(mode: str) -> str:
    """The same protocol with pages of one token."""
    first, _, settings = mode.partition(":")
    kept = [setting for setting in settings.split(",") if not setting.startswith("page")]
    return f"{first}:{','.join(kept)}".rstrip(":")


def optimum_like(spec: str) -> str:
    """The optimum whose heads share a cache where those of the policy do."""
    return f"{OPTIMAL}+shared:scores=mean" if SHARED in spec else OPTIMAL


def is_coarse(comparison: Comparison) -> bool:
    """Whether the protocol has pages, or heads of a policy share their caches."""
    shares = any(SHARED in spec for spec in comparison.policies)
    return shares or token_mode(comparison.mode) != comparison.mode


def regrets(comparison: Comparison) -> pd.DataFrame:
    """By policy at the chosen budget: `price`, how much less recall than the optimum of tokens the
    optimum of the same pages and shared heads has, and `own`, how much less than that the policy
    has; each with its interval, `_low` and `_high`. Policies without both optima are left out.
    """
    tokens = comparison.results.replay
    tokens = tokens[
        (tokens["mode"] == token_mode(comparison.mode))
        & (tokens["policy"] == OPTIMAL)
        & (tokens["seed"] == comparison.seed)
        & tokens["trace_id"].isin(comparison.trace_ids)
    ].assign(policy=TOKENS)
    rows = comparison.rows[comparison.rows["point"] == comparison.point]
    key = ["trace_id", *UNIT, "budget"]
    best = rows["policy"].isin({optimum_like(spec) for spec in comparison.policies})
    tokens = tokens.merge(rows.loc[best, key].drop_duplicates(), on=key)
    rows = pd.concat([rows, tokens.assign(point=comparison.point)])
    whole = rows["policy"].value_counts() == comparison.num_units
    rows = rows[rows["policy"].map(whole)]
    there = set(rows["policy"])
    if TOKENS not in there:
        return pd.DataFrame()
    intervals = Intervals(rows)
    found = {}
    for spec in comparison.shown:
        best = optimum_like(spec)
        if {spec, best} <= there and best != spec and spec not in comparison.oracles:
            differences = {"price": (TOKENS, best), "own": (best, spec)}
            found[spec] = {
                name + end: value
                for name, pair in differences.items()
                for end, value in zip(("", "_low", "_high"), _difference(intervals, pair, rows))
            }
    return pd.DataFrame.from_dict(found, orient="index")


def _difference(
    intervals: Intervals, pair: tuple[str, str], rows: pd.DataFrame
) -> tuple[float, float, float]:
    point = rows["point"].iloc[0]
    return intervals.difference("attention_recall", (pair[0], point), (pair[1], point))
