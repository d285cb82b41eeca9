"""What the protocol of rows says of their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _engine
from ...bootstrap import UNIT

if TYPE_CHECKING:
    import pandas as pd


def options_of(protocol: _engine.Protocol) -> str:
    """What a command line says of when caches evict, with a blank before each option."""
    usual = _engine.Protocol().evictions
    asked = {name: value for name, value in protocol.evictions.items() if value != usual[name]}
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in asked.items())


def steps_after_prompt(rows: pd.DataFrame) -> pd.Series:
    """The steps of each row's text or of what follows its prompt; NaN where `steps` is a sample."""
    modes = {mode: _engine.Protocol.of_name(mode) for mode in rows["mode"].unique()}
    return rows["steps"].mask([modes[mode].is_sample for mode in rows["mode"]])


def most_tokens(rows: pd.DataFrame, protocol: _engine.Protocol) -> pd.Series:
    """The most tokens that the protocol lets each of its rows hold after a step.

    Between two evictions the cache grows by K - 1 tokens beyond its budget. Where nothing is
    evicted after the prompt, every step adds a token. Of how many a sample was measured rows do not
    have; there a row may hold any number, unless it evicts nothing and others at its budget do.
    """
    if not protocol.evicts_once:
        return rows["budget"] + protocol.most_held(0)
    evicts = rows["evictions"] > 0
    others_do = evicts.groupby([rows[key] for key in ("trace_id", *UNIT, "budget")]).transform(
        "any"
    )
    unknown = rows["budget"].astype(float).mask(evicts | ~others_do, float("inf"))
    return (rows["budget"] + steps_after_prompt(rows)).fillna(unknown)
