"""Where the running model loses: KL by the kind of the predicted token, and along the text."""

from __future__ import annotations

import pandas as pd

from ...bootstrap import FEWEST_SAMPLES
from ...closed_loop.steps import ROW_KEY, closed_loop_steps
from .closed_loop import ClosedLoop
from .intervals import Intervals
from .rows import of_most_common_units

PARTS = 32  # of a text, equally long
_FIRST = ("text", "needle", "question", "answer")  # the order of kinds; others follow by name


def kl_by_kind(closed: ClosedLoop) -> pd.DataFrame:
    """KL in nats per token by policy, point and kind, the mean over the texts that have the kind.

    Columns: kl_mean; kl_mean_low and kl_mean_high, its interval over texts, NaN for fewer than
    FEWEST_SAMPLES; texts. A policy has a row where it ran on as many texts as the others. Empty
    where the file has no kinds.
    """
    found = []
    rows = _parts_of(closed, "closed_loop_kind")
    for kind in _ordered(rows["kind"].unique() if len(rows) else []):
        of_kind = of_most_common_units(rows[rows["kind"] == kind])
        intervals = Intervals(of_kind)
        means = intervals.mean("kl_mean").rename("kl_mean").to_frame()
        means["texts"] = texts = of_kind["sequence"].nunique()
        ends = intervals.limits(intervals.drawn_mean("kl_mean"))
        for end in ("low", "high"):
            means[f"kl_mean_{end}"] = ends[end] if texts >= FEWEST_SAMPLES else float("nan")
        found.append(means.assign(kind=kind).set_index("kind", append=True))
    return pd.concat(found) if found else pd.DataFrame()


def kl_along_text(closed: ClosedLoop, point: str) -> pd.DataFrame:
    """KL in nats per token at one budget, [policies, parts of the text], the mean over texts.

    There are PARTS, or fewer where a text has fewer tokens; a column is the middle of a part as a
    share of the text. NaN where no step is measured. Empty where the file has no steps.
    """
    rows = _parts_of(closed, "closed_loop_step")
    rows = rows[rows["point"] == point] if len(rows) else rows
    if rows.empty:
        return pd.DataFrame()
    rows = of_most_common_units(rows)
    steps = closed_loop_steps({"closed_loop_step": rows})
    tokens = steps.groupby("sequence")["step"].transform("max") + 1
    parts = min(PARTS, int(tokens.min()))
    place = (steps["step"] * parts // tokens).rename("part")
    of_texts = steps.groupby(["policy", "sequence", place])["kl"].mean()
    found = (
        of_texts.groupby(["policy", "part"]).mean().unstack("part").reindex(columns=range(parts))
    )
    return found.set_axis([(part + 0.5) / parts for part in range(parts)], axis="columns")


def _parts_of(closed: ClosedLoop, table: str) -> pd.DataFrame:
    """The rows of a table of parts, each with the columns of its row that a statistic needs."""
    results = closed.comparison.results
    if table not in results:
        return pd.DataFrame()
    of_rows = closed.rows[[*ROW_KEY, "point", "layer", "kv_head"]]
    return results[table].merge(of_rows, on=[*ROW_KEY], how="inner", validate="many_to_one")


def _ordered(kinds: list[str]) -> list[str]:
    return sorted(kinds, key=lambda kind: ((*_FIRST, kind).index(kind), kind))
