"""What a mode says of the protocol of its rows, as in `prefill:interval=never,every=10`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...bootstrap import UNIT

if TYPE_CHECKING:
    import pandas as pd


def base_mode(mode: str) -> str:
    """stream or prefill: the mode without its settings."""
    return mode.partition(":")[0]


def eviction_interval(mode: str) -> str:
    """K or `never` where the cache may exceed its budget between evictions, else empty."""
    return _setting("interval", mode)


def steps_after_prompt(rows: pd.DataFrame) -> pd.Series:
    """The steps of each row's text or of what follows its prompt; NaN where `steps` is a sample."""
    sampled = [_setting("reference", mode).startswith("sample:") for mode in rows["mode"]]
    return rows["steps"].mask(sampled)


def most_tokens(rows: pd.DataFrame, mode: str) -> pd.Series:
    """The most tokens that the protocol lets each row of this mode hold after a step.

    Between two evictions the cache grows by K - 1 tokens beyond its budget. Where nothing is
    evicted after the prompt, every step adds a token. Of how many a sample was measured rows do not
    have; there a row may hold any number, unless it evicts nothing and others at its budget do.
    """
    interval = eviction_interval(mode)
    if interval != "never":
        return rows["budget"] + (int(interval) - 1 if interval else 0)
    evicts = rows["evictions"] > 0
    others_do = evicts.groupby([rows[key] for key in ("trace_id", *UNIT, "budget")]).transform(
        "any"
    )
    unknown = rows["budget"].astype(float).mask(evicts | ~others_do, float("inf"))
    return (rows["budget"] + steps_after_prompt(rows)).fillna(unknown)


def _setting(name: str, mode: str) -> str:
    """The value of a setting of the mode; empty where it has none of this name."""
    settings = (setting.partition("=") for setting in mode.partition(":")[2].split(","))
    return next((value for found, _, value in settings if found == name), "")
