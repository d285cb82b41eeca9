"""Compares policies of a result file: differences with their intervals."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..program import run_noting
from .meanings import about_comparison

if TYPE_CHECKING:  # loaded on use, so that a command can report a missing pandas in one line
    import pandas as pd

    from .reading import Results

_COLUMNS = ["budget", "mode", "difference", "low", "high", "samples", "sampled"]


class ComparisonWarning(UserWarning):
    """Rows that only one of two compared policies has took no part."""


def compare(
    results: str | Path | Results,
    a: str,
    b: str | Sequence[str],
    metric: str = "attention_recall",
    budget: int | str | None = None,
    *,
    mode: str | None = None,
    mode_b: str | None = None,
    trace_id: str | None = None,
    sequences: Sequence[str] | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """The difference of `metric` between policies `a` and `b`, a - b, with its 95% interval.

    Parameters
    ----------
    results : path or Results
        A result file, or what `kvsim.load` gives.
    a : str
        A policy of the file, by its spec.
    b : str or sequence of str
        Another policy, or several.
    metric : str, default "attention_recall"
        A number of the table `replay`; `predicted_kl`, summed over the units of a sequence; or
        `projected_error` of the table `layer_error`, summed over layers, which then count as units.
    budget : int or str, optional
        As requested; all that both have without it.
    mode : str, optional
        Of the rows; all that both have without it.
    mode_b : str, optional
        The rows of `b` are of this mode, and those of `a` of `mode`.
    trace_id : str, optional
        Of the rows.
    sequences : sequence of str, optional
        Names; all without it.
    seed : int, optional
        Of the rows.

    Returns
    -------
    pandas.DataFrame
        One row per budget and mode that both have: `budget` (tokens, or the share as requested
        where sequences of several lengths have it, or the size as requested, "64KiB", where both
        were asked for by it), `mode`, `difference`, `low`, `high` (of the paired bootstrap; NaN
        where there is one sample), `samples`, and `sampled`: `sequences`, or `units` where there
        are fewer than five sequences. If `b` is a list, a leading column `b` holds the canonical
        spec of the row. With `mode_b` a column `mode_b` follows `mode`.

    Raises
    ------
    ProgramError
        For what the program refuses.
    UsageError
        `results` is a frame.

    Warns
    -----
    ComparisonWarning
        About rows that only one of the policies has.

    Notes
    -----
    Where low <= 0 <= high, the data do not distinguish the two; nor do fewer than five samples,
    whatever their interval. `kvsim compare` computes the frame, and `kvsim compare --help` explains
    the choices.

    Examples
    --------
    >>> kvsim.compare("results.sqlite", "h2o", ["tova", "snapkv"])

    The price of pages:

    >>> kvsim.compare(results, "optimal", "optimal", mode="stream", mode_b="stream:page=16")
    """
    import pandas as pd

    file = getattr(results, "path", results)
    if not isinstance(file, str | PathLike):
        raise UsageError(
            f"results: expected a result file or what kvsim.load gives, found a "
            f"{type(results).__name__}; kvsim.sweep(..., output=FILE) writes a result file"
        )
    others = [b] if isinstance(b, str) else list(b)
    arguments: list[object] = ["compare", file, a, *others]
    arguments += ["--metric", metric, "--format", "json"]
    for option, value in (
        ("--budget", budget),
        ("--mode", mode),
        ("--mode-b", mode_b),
        ("--trace-id", trace_id),
        ("--sequences", None if sequences is None else ",".join(sequences)),
        ("--seed", seed),
    ):
        if value is not None:
            arguments += [option, value]
    printed, notes = run_noting(*arguments)
    for note in notes:
        warnings.warn(note.removeprefix("kvsim: "), ComparisonWarning, stacklevel=2)
    columns = _COLUMNS if isinstance(b, str) else ["b", *_COLUMNS]
    if mode_b is not None:
        columns = [*columns[: columns.index("mode") + 1], "mode_b", *columns[-5:]]
    frame = pd.DataFrame(json.loads(printed), columns=columns)
    frame = frame.astype(dict.fromkeys(["difference", "low", "high"], float))
    meaning = about_comparison(a, b if isinstance(b, str) else None, metric)
    meaning["about"] = {name: meaning["about"][name] for name in frame.columns}
    frame.attrs.update(meaning)
    return frame
