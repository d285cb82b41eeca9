"""Joins what a replay measured to what the running model did, per text, policy and budget."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..errors import DataError
from ..results.calibration import Tables, calibrated_kl, tables_of
from ..results.points import with_points

# A metric is the mean over units, the first three are sums over layers.
METRICS = (
    "calibrated_kl",
    "predicted_kl",
    "projected_error",
    "output_error_sq",
    "output_error_mean",
    "attention_recall",
    "miss_rate",
)
OUTCOMES = ("kl_mean", "delta_nll", "answers_share")
TEXT = ["trace_id", "sequence"]

_KEY = [*TEXT, "policy", "budget", "mode", "seed"]
_GROUP = ["model_id", "mode", "loop", *TEXT, "policy", "budget"]
_SUMMED = ["projected_error", "predicted_kl"]


def both_loops(results: str | Path | Tables) -> pd.DataFrame:
    """One row per text, policy, budget, mode and loop of which a file has both loops.

    `results` is a result file, what `kvsim.load` gives, or a dict of its tables. A row of
    `closed_loop` meets the rows of `replay` of the same trace, sequence, policy, budget in tokens,
    mode and seed; the values of several seeds are averaged.

    Columns: model_id, mode, loop, trace_id, sequence, policy, budget (tokens), `point` (the budget
    as requested); the METRICS that the file has, each the mean over units, projected_error and
    predicted_kl the sum over layers, calibrated_kl that of `kvsim.calibrated_kl`; the OUTCOMES,
    with `answers_share` = answers_right / answers, NaN without answers; kept_overlap.
    `attrs["notes"]` says in sentences what was left out.
    Raises DataError where no row has both.
    """
    tables = tables_of(results)
    where = getattr(tables, "path", "the tables")
    for name in ("closed_loop", "replay"):
        if name not in tables or tables[name].empty:
            raise DataError(
                f"{where}: expected rows of replay and of closed_loop, found no {name}. What "
                f"writes both: {_command(where)}"
            )
    closed = tables["closed_loop"]
    answers = closed["answers"].where(closed["answers"] > 0)
    closed = closed.assign(answers_share=closed["answers_right"] / answers)
    opened, notes = _open_loop(tables)
    found = closed.merge(opened, on=_KEY, how="inner", validate="many_to_one")
    if found.empty:
        raise DataError(
            f"{where}: expected rows of replay and of closed_loop of the same trace, sequence, "
            f"policy, budget, mode and seed, found none. What writes both: {_command(where)}"
        )
    if len(found) < len(closed):
        lacking = ", ".join(sorted(set(closed["policy"]) - set(found["policy"])))
        notes.append(
            f"{len(closed) - len(found)} rows of closed_loop have no rows of replay at the same "
            f"text, policy, budget, mode and seed{f' ({lacking})' if lacking else ''}."
        )
    found = with_points(found)
    measured = [name for name in [*METRICS, *OUTCOMES, "kept_overlap"] if name in found]
    frame = found.groupby(_GROUP, as_index=False).agg(
        {"point": "first", **dict.fromkeys(measured, "mean")}
    )
    frame.attrs["notes"] = notes
    return frame


def _command(where: object) -> str:
    file = where if isinstance(where, Path) else "RESULTS.sqlite"
    return f"python -m kvsim.evaluate MODEL --text FILE --policies SPECS --budgets LIST -o {file}"


def _open_loop(tables: Tables) -> tuple[pd.DataFrame, list[str]]:
    """The metrics of each policy on each text, and what was left out."""
    rows = tables["replay"]
    metrics = [name for name in METRICS if name in rows and name not in _SUMMED]
    groups = rows.groupby(_KEY)
    means = groups[metrics].mean().where(groups[metrics].count().eq(groups.size(), axis=0))
    units = groups.size()
    most = units.groupby([name for name in _KEY if name != "policy"]).transform("max")
    # A mean over some of the units is of other heads than those of the other policies.
    whole = units == most
    notes = []
    if not whole.all():
        partly = ", ".join(sorted(set(units.index[~whole].get_level_values("policy"))))
        notes.append(f"Left out where fewer units were replayed than of other policies: {partly}.")
    frame = means[whole].reset_index()
    if "layer_error" in tables:
        summed = _sums(tables["layer_error"])
        frame = frame.merge(summed, on=_KEY, how="left", validate="one_to_one")
        calibrated = calibrated_kl(tables)
        frame = frame.merge(calibrated, on=_KEY, how="left", validate="one_to_one")
    return frame, notes


def _sums(layers: pd.DataFrame) -> pd.DataFrame:
    """projected_error and predicted_kl summed over layers; NaN where a layer is missing."""
    groups = layers.groupby(_KEY)
    has_all = groups[_SUMMED].count().eq(groups["num_layers"].max(), axis=0)
    return groups[_SUMMED].sum().where(has_all).reset_index()
