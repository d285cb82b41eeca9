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

    >>> tables = kvsim.analyze(trace, what="persistence,sparsity")
    >>> tables["persistence"].persistence_ratio.mean()

    Arguments:
      what: names of analyses, in a list or separated by ",", with their parameters:
        "sparsity:threshold=0.1"; "all": every one that trace and arguments allow. `kvsim analyze
        --help` lists them.
      policies, budgets: as for kvsim.sweep, for analyses of replays; both or neither.
      trace, mode, threads, progress: as for kvsim.sweep.
      output: a result file (SQLite), where rows of the same key are replaced.
      options: see kvsim.Options, without reference and every.

    Returns a dict from the name of a table, which is that of its analysis with "_" for "-", to its
    frame, ordered by its key; the table `unit` describes the units. The numbers are those of
    `kvsim analyze`, bit for bit. Raises what kvsim.sweep raises.
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
