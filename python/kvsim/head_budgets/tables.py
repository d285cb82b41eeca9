"""What heads lose, out of the tables of a result file: one policy's rows, with a column `loss`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import DataError, KvsimError, UsageError
from ..results import Results, load

if TYPE_CHECKING:
    import pandas as pd

ATTENTION = "attention_loss"
PROJECTED = "projected_error"
# What a trace needs for each: what kvsim.record adds to it.
METRICS = {
    ATTENTION: None,
    "output_error_sq": None,
    "predicted_kl": "output_score_grad",
    PROJECTED: "output_projection",
}
_KEY = ("trace_id", "policy", "mode", "seed")
_ROW = [*_KEY, "sequence", "layer", "budget"]


def rows_of(
    losses: object, policy: str | None, metric: str, sequences: str | Sequence[str] | None
) -> pd.DataFrame:
    """The rows of one policy in the table that has the metric, which is the column `loss`."""
    if metric not in METRICS:
        raise UsageError(f"metric: expected {', '.join(METRICS)}, found {metric!r}")
    if isinstance(losses, (str, os.PathLike)):
        losses = load(losses)
    frame = _chosen(_table_of(losses, metric, policy), policy, sequences)
    _check(frame)
    if metric == ATTENTION:
        return _complete(frame.assign(loss=1 - frame.attention_recall), metric)
    if metric != PROJECTED:
        return _complete(frame.assign(loss=frame[metric]), metric)
    return _complete(_of_layers(frame, _named(losses, "layer_error")), metric)


def _table_of(losses: object, metric: str, policy: str | None) -> pd.DataFrame:
    if hasattr(losses, "columns"):
        column = "attention_recall" if metric == ATTENTION else metric
        if metric != PROJECTED and column in losses.columns:
            return losses
        which = "a result file with the tables replay and layer_error"
        raise UsageError(
            f"metric: the frame has no column {column}; "
            + (f"name {which}" if metric == PROJECTED else "take that of kvsim.sweep")
        )
    if metric == ATTENTION and isinstance(losses, (Results, dict)):
        # A result file has tables without rows, too.
        there = [losses[name] for name in ("curve", "replay") if name in losses]
        for table in there:
            if len(table if policy is None else _of_policy(table, policy)):
                return table
        if there:
            return there[0]
    return _named(losses, "replay")


def _named(tables: Results | Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """A table of a result file, which says itself what it lacks, or of a dict."""
    try:
        return tables[name]
    except (KeyError, TypeError) as error:
        if isinstance(error, KvsimError):
            raise
        what = ", ".join(map(str, tables)) if isinstance(tables, dict) else type(tables).__name__
        raise UsageError(
            f"losses: expected a frame, a result file or its tables with {name}, found {what}"
        ) from None


def _chosen(
    frame: pd.DataFrame, policy: str | None, sequences: str | Sequence[str] | None
) -> pd.DataFrame:
    if policy is not None:
        there = sorted(frame.policy.unique())
        frame = _of_policy(frame, policy)
        if frame.empty:
            raise UsageError(f"policy: there is no curve of {policy}; there are {'; '.join(there)}")
    if sequences is not None:
        names = [sequences] if isinstance(sequences, str) else list(sequences)
        for name in names:
            if name not in set(frame.sequence):
                raise UsageError(f"sequences: there is no curve of {name}")
        frame = frame[frame.sequence.isin(names)]
    return frame


def _of_policy(frame: pd.DataFrame, policy: str) -> pd.DataFrame:
    """The rows of a spec, or of all specs of a name."""
    is_of = frame.policy == policy
    if not is_of.any():
        is_of = frame.policy.str.split("[:+@]").str[0] == policy
    return frame[is_of if is_of.any() else frame.policy == _canonical(policy)]


def _canonical(spec: str) -> str:
    """The spec as rows have it; one that the engine does not know, as a class's, stays as it is."""
    from .. import _engine

    try:
        found = _engine.specs([spec], "uniform")
    except UsageError:
        return spec
    return str(found[0]["text"]) if len(found) == 1 else spec


def _check(frame: pd.DataFrame) -> None:
    if frame.empty:
        raise UsageError("losses: expected rows, found none; make some with kvsim sweep or curve")
    paged = [mode for mode in frame["mode"].unique() if "page=" in mode]
    if paged:
        raise UsageError(
            f"mode: expected curves of caches that evict token by token, found {paged[0]}, whose "
            "budgets are whole pages; make curves without page"
        )
    for column in _KEY:
        found = [str(value) for value in frame[column].unique()]
        if len(found) != 1:
            fix = "name one" if column == "policy" else "make a file of one"
            raise UsageError(f"{column}: expected curves of one, found {'; '.join(found)}; {fix}")
    if "@" in frame.policy.iloc[0]:
        raise UsageError(
            f"policy: expected one whose heads have the same budget, found {frame.policy.iloc[0]}; "
            "sweep it without @"
        )


def _of_layers(frame: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """The projected error of each layer, over its heads in proportion to their own errors."""
    own = frame.output_error_sq
    groups = frame.assign(own=own).groupby(_ROW).own
    part = (own / groups.transform("sum")).where(
        groups.transform("sum") != 0, 1 / groups.transform("size")
    )
    of_layer = frame[_ROW].merge(errors[[*_ROW, PROJECTED]], on=_ROW, how="left")
    return frame.assign(loss=of_layer[PROJECTED].to_numpy() * part)


def _complete(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    missing = int(frame.loss.isna().sum())
    if missing:
        needs = METRICS[metric]
        fix = f"record the trace with --also {needs}" if needs else "sweep with a reference"
        raise DataError(
            f"{metric}: expected a number in every row, found {missing} of {len(frame)} without; "
            f"{fix}"
        )
    return frame
