"""What the papers measure of attention, keys and replays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..results.frames import frame_of
from .options import Options, check_scratch, engine_traces, listed, warn_of
from .progress import Progress, reporter
from .shared import file_name, options_without
from .sweep import Traces, command_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from typing_extensions import Unpack


def analyze(
    trace: Traces,
    what: str | Sequence[str],
    policies: str | type | Sequence[str | type] | None = None,
    budgets: str | float | Sequence[str | float] | None = None,
    mode: str = "stream",
    threads: int | None = None,
    output: str | Path | None = None,
    progress: Progress = None,
    **options: Unpack[Options],
) -> dict[str, pd.DataFrame]:
    """Analyses of the selected units: a frame per table.

    Parameters
    ----------
    trace : path, Trace, or sequence of these
        What to analyse.
    what : str or sequence of str
        Names of analyses, in a list or separated by ",", with their parameters:
        "sparsity:threshold=0.1"; "all": every one that trace and arguments allow. `kvsim analyze
        --help` lists them.
    policies : str, class, or sequence of these, optional
        For analyses of replays, as for `kvsim.sweep`; only together with `budgets`.
    budgets : str, int, float, or sequence of these, optional
        As for `kvsim.sweep`; only together with `policies`.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    threads : int, optional
        Units worked on at once; see `kvsim.Options`.
    output : path, optional
        A result file (SQLite), where rows of the same key are replaced.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in units.
    **options : Options
        See `kvsim.Options`, without reference and every.

    Returns
    -------
    dict of str to pandas.DataFrame
        From the name of a table, which is that of its analysis with "_" for "-", to its frame,
        ordered by its key. The table `unit` describes the units. The attrs of a frame say what it
        shows, its source, and the meaning and unit of each column.

    Raises
    ------
    UsageError
        For only one of `policies` and `budgets`; else as `kvsim.sweep`.
    DataError, KvsimError, KeyboardInterrupt
        As `kvsim.sweep`.
    Exception
        What a policy of Python raises, as `kvsim.sweep`.

    Warns
    -----
    KvsimWarning
        As `kvsim.sweep`.

    Notes
    -----
    The numbers are those of `kvsim analyze`, bit for bit.

    Examples
    --------
    >>> tables = kvsim.analyze(trace, what="persistence,sparsity")
    >>> tables["persistence"].persistence_ratio.mean()
    """
    if (policies is None) != (budgets is None):
        raise UsageError("policies and budgets are given together or not at all")
    names = ";".join(listed(what))
    specs = [] if policies is None else listed(policies)
    amounts = [] if budgets is None else listed(budgets)
    check_scratch(options.get("scratch"), output)
    absent = ("reference", "every")
    settings = options_without(absent, {"mode": mode, "threads": threads, **options})
    replayed = {} if policies is None else {"policies": specs, "budgets": amounts}
    command = command_of("analyze", trace, {"what": names, **replayed, **settings})
    from .. import _engine

    with reporter(progress, "units") as report:
        tables, notes = _engine.analyze(
            engine_traces(trace),
            names,
            specs,
            amounts,
            settings,
            file_name(output),
            command,
            report,
        )
    warn_of(notes)
    return {name: frame_of(*table) for name, table in tables.items()}
