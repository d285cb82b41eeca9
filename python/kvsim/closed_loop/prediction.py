"""Does replay predict it? How alike a replay and the running model rank policies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from ..bootstrap import FEWEST_SAMPLES, UNIT, Samples
from ..errors import UsageError
from ..results.columns import sign
from .both_loops import METRICS, OUTCOMES, TEXT, Tables, both_loops

# Those of the study (notebooks/study) but for oracles and for what is far behind all others there,
# which every metric finds.
SERIOUS = (
    "h2o",
    "kcenter",
    "lookback",
    "random+protect:first=0.1,last=0.1",
    "scissorhands",
    "sink",
    "snapkv",
    "tova",
    "valuediff",
    "vatp",
)
ALL_BUDGETS = "all budgets"
FEWEST_POLICIES = 3  # two are ranked alike or not, whatever the metric
# What differs by less is equal: nats of a forward pass in float32, and the digits of a mean.
_DECIMALS = 6
_DIGITS = 9


def rank_correlations(
    results: str | Path | Tables | pd.DataFrame,
    policies: Sequence[str] | None = None,
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """Spearman's rank correlation of every open-loop metric with every closed-loop outcome.

    Parameters
    ----------
    results : path, Results, dict of str to pandas.DataFrame, or pandas.DataFrame
        A result file with rows of both loops, what `kvsim.load` gives, a dict of its tables, or a
        frame of joined rows; without its column trace_id, texts of one name are one.
    policies : sequence of str, optional
        Restricts it to some: names or canonical specs; a name is that of the plain policy with any
        parameters, without "+" and "@". `full`, to which no budget applies, takes no part unless it
        is named.
    seed : int, default 0
        Of the draws of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        One row per model_id, mode, loop, budget, metric and outcome: `budget` as requested, or "all
        budgets", where the points of all budgets are ranked together; `spearman`; `low` and `high`,
        the 95% interval of the bootstrap over texts (2,000 draws), NaN for fewer than two texts;
        `texts`, how many count: those with three or more policies of which neither the metric nor
        the outcome is the same for all; `points`, the fewest that are ranked in a text; `says`, the
        verdict in words. `attrs["notes"]` says what was left out.

    Raises
    ------
    UsageError
        For a policy that is not there.
    DataError
        Where no row has both loops.
    ResultsError
        As `kvsim.load`.

    Notes
    -----
    A correlation is over policies on one text, then averaged over texts. Its sign is such that +1
    means that the metric ranks the policies as the running model does, for metrics of which more is
    worse, too.

    Examples
    --------
    >>> found = kvsim.rank_correlations("results.sqlite")
    >>> found[found.outcome == "kl_mean"][["budget", "metric", "spearman", "says"]]
    """
    rows = results if isinstance(results, pd.DataFrame) else both_loops(results)
    notes = rows.attrs.get("notes", [])
    rows = _chosen(rows, policies)
    found = []
    for (model, mode, loop), group in rows.groupby(["model_id", "mode", "loop"]):
        order = group.groupby("point")["budget"].mean().sort_values(kind="stable").index
        parts = [(point, group[group["point"] == point]) for point in order]
        if len(parts) > 1:
            parts.append((ALL_BUDGETS, group))
        for budget, part in parts:
            key = {"model_id": model, "mode": mode, "loop": loop, "budget": budget}
            found += [key | row for row in _of_part(part, seed)]
    frame = pd.DataFrame(found)
    frame.attrs["notes"] = notes
    return frame


def _chosen(rows: pd.DataFrame, policies: Sequence[str] | None) -> pd.DataFrame:
    if policies is None:
        return rows[rows["policy"] != "full"]
    if isinstance(policies, str):
        raise UsageError(f"policies: expected a list of names, found the text {policies!r}")
    there = rows["policy"].unique()
    for wanted in policies:
        if not any(is_plain(spec, wanted) for spec in there):
            raise UsageError(
                f"policies: no rows of {wanted} in both loops; there are {', '.join(sorted(there))}"
            )
    return rows[[any(is_plain(spec, name) for name in policies) for spec in rows["policy"]]]


def is_plain(spec: str, wanted: str) -> bool:
    """Whether a canonical spec is the wanted one, or the plain policy of that name."""
    plain = "+" not in spec and "@" not in spec
    return spec == wanted or (plain and spec.partition(":")[0] == wanted)


def _of_part(part: pd.DataFrame, seed: int) -> list[dict[str, object]]:
    """A row for every metric and outcome that the points of one budget, or of all, have."""
    metrics = [name for name in METRICS if name in part and part[name].notna().any()]
    outcomes = [name for name in OUTCOMES if part[name].notna().any()]
    named = [name for name in TEXT if name in part]
    numbers = part[named].assign(
        **{name: part[name].map(_to_digits) for name in metrics},
        **{name: part[name].round(_DECIMALS) for name in outcomes},
    )
    texts = [text.drop(columns=named) for _, text in numbers.groupby(named)]
    tables = [spearman(text) for text in texts]
    rows = []
    for metric in metrics:
        for outcome in outcomes:
            agreeing = sign(metric) * sign(outcome)
            correlations = [
                (agreeing * table.at[metric, outcome], len(text[[metric, outcome]].dropna()))
                for table, text in zip(tables, texts)
            ]
            defined = [(value, points) for value, points in correlations if value == value]
            rows.append({"metric": metric, "outcome": outcome, **_summary(defined, seed)})
    return rows


def _to_digits(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def spearman(columns: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation of every two columns, equal values sharing their mean rank.

    NaN for fewer than FEWEST_POLICIES rows that have both, or where one of them is constant.
    """
    found = columns.corr(method="spearman", min_periods=FEWEST_POLICIES)
    return found.round(12)  # so that equal ranks give 1


def _summary(correlations: list[tuple[float, int]], seed: int) -> dict[str, object]:
    values = np.array([value for value, _ in correlations])
    if not len(values):
        nothing = dict.fromkeys(["spearman", "low", "high"], float("nan"))
        says = f"no text ranks them: fewer than {FEWEST_POLICIES} policies, or all alike"
        return {**nothing, "texts": 0, "points": 0, "says": says}
    low, high = interval_over_texts(values, seed)
    return {
        "spearman": float(values.mean()),
        "low": low,
        "high": high,
        "texts": len(values),
        "points": min(points for _, points in correlations),
        "says": _verdict(low, high, len(values)),
    }


def _verdict(low: float, high: float, texts: int) -> str:
    if texts == 1:
        return "one text: no interval"
    if texts < FEWEST_SAMPLES:
        return f"too few texts ({texts}) to tell"
    if low > 0:
        return "ranks better than chance"
    return "ranks worse than chance" if high < 0 else "not distinguishable from chance"


def interval_over_texts(values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The 95% interval of the mean of one value per text: the bootstrap of `kvsim compare`.

    NaN for fewer than two texts.
    """
    if len(values) < 2:
        return float("nan"), float("nan")
    samples = _samples(len(values), seed)
    (low,), (high,) = samples.limits(samples.drawn_means(np.asarray(values, float)[None]))
    return float(low), float(high)


@lru_cache
def _samples(texts: int, seed: int) -> Samples:
    names = [f"{place:09}" for place in range(texts)]  # a text counts as a unit
    return Samples(pd.DataFrame({"sequence": names}).assign(layer=0, kv_head=0)[UNIT], seed)
