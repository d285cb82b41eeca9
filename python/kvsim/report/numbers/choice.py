"""Selects what a report shows of a result file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import KvsimError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class ChoiceError(KvsimError):
    """The result file does not have what was chosen."""


@dataclass(frozen=True)
class Choice:
    """What to show of a result file.

    By default: the trace, mode and seed with the most rows, all sequences, the largest budget, the
    head in which the policies differ most, all policies in the table, and in the figures those that
    `selection.select` chooses.
    """

    trace_id: str | None = None  # its first characters are enough
    sequences: tuple[str, ...] = ()
    mode: str | None = None
    seed: int | None = None
    budget: str | None = None  # as requested in the sweep, or in tokens
    policies: tuple[str, ...] = ()  # names, labels or specs, as `labels.is_named`; `all`: draw all
    layer: int | None = None
    query_head: int | None = None
    trace: str | None = None  # the trace file, if it has moved
    calibration: str | None = None  # a result file whose running model weighs the layers


def one_of(rows: pd.DataFrame, column: str, wanted: object, path: Path, notes: list[str]) -> object:
    """The wanted value of a column, or the one with the most rows, of which a note is taken.

    Raises ChoiceError if the rows, of the file at `path`, lack the wanted one.
    """
    counts = rows[column].value_counts().sort_index()
    counts = counts.sort_values(ascending=False, kind="stable")
    option = "--" + column.replace("_", "-")
    there = ", ".join(str(value) for value in sorted(counts.index))
    if wanted is not None and wanted not in counts.index:
        raise ChoiceError(f"{option}: {path} has no {wanted}; it has {there}")
    if wanted is None and len(counts) > 1:
        length = 12 if column == "trace_id" else None  # a digest is long
        shown, *others = (str(value)[:length] for value in counts.index)
        notes.append(
            f"{column} is {shown}, which has the most rows; there are also rows of "
            f"{', '.join(others)} ({option})."
        )
    return counts.index[0] if wanted is None else wanted


def full_id(rows: pd.DataFrame, wanted: str | None) -> str | None:
    """The trace_id that begins so, if it is one alone."""
    if wanted is None:
        return None
    found = [name for name in rows["trace_id"].unique() if name.startswith(wanted)]
    return found[0] if len(found) == 1 else wanted
