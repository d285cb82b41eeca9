"""What of a result file a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import pandas as pd


class ChoiceError(Exception):
    """Something was chosen that the result file does not have."""


@dataclass(frozen=True)
class Choice:
    """What to show of a result file. None: the trace, mode and seed with the most rows, all
    sequences and policies, the largest budget, the head in which policies differ most."""

    trace_id: Optional[str] = None  # its first characters are enough
    sequences: tuple[str, ...] = ()
    mode: Optional[str] = None
    seed: Optional[int] = None
    budget: Optional[str] = None  # as it was asked for, or in tokens
    policies: tuple[str, ...] = ()  # canonical specs, labels or names
    layer: Optional[int] = None
    query_head: Optional[int] = None
    trace: Optional[str] = None  # where the trace file is now


def with_points(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `point`, the budget as it was asked for."""
    # A point is a budget as it was asked for: a share is other tokens in each sequence. Where two
    # requests came to the same tokens, rows carry whichever was first: the most frequent is meant.
    counts = rows.groupby(["sequence", "budget", "budget_request"]).size()
    order = counts.reset_index(name="rows").sort_values("rows", ascending=False, kind="stable")
    meant = order.drop_duplicates(["sequence", "budget"]).set_index(["sequence", "budget"])
    keys = pd.MultiIndex.from_frame(rows[["sequence", "budget"]])
    return rows.assign(point=meant["budget_request"].reindex(keys).to_numpy())
