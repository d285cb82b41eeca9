"""What a mode says of the protocol of its rows, as in `prefill:interval=never,every=10`."""

import pandas as pd


def base_mode(mode: str) -> str:
    """stream or prefill: the mode without its settings."""
    return mode.partition(":")[0]


def eviction_interval(mode: str) -> str:
    """K or `never` where the cache may exceed its budget between evictions, else empty."""
    settings = mode.partition(":")[2].split(",")
    return next((s.partition("=")[2] for s in settings if s.startswith("interval=")), "")


def most_tokens(rows: pd.DataFrame, mode: str) -> pd.Series:
    """The most tokens that the protocol lets each row of this mode hold after a step.

    Between two evictions the cache grows by K - 1 tokens beyond its budget. Where nothing is
    evicted after the prompt, every measured step adds a token.
    """
    interval = eviction_interval(mode)
    if interval == "never":
        return rows["budget"] + rows["steps"]
    return rows["budget"] + (int(interval) - 1 if interval else 0)
