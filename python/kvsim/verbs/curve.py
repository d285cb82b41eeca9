"""Every budget at once, for policies whose caches nest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..results.frames import frame_of
from .options import Options, check_scratch, engine_traces, listed, warn_of
from .progress import Progress, reporter
from .shared import file_name, options_without
from .sweep import Traces, command_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from typing_extensions import Unpack


def curve(
    trace: Traces,
    policies: str | type | Sequence[str | type],
    mode: str = "stream",
    threads: int | None = None,
    output: str | Path | None = None,
    progress: Progress = None,
    *,
    output_error: str | float | Sequence[str | float] = "none",
    **options: Unpack[Options],
) -> pd.DataFrame:
    """Every policy at every budget from 1 to the length of the text, in one pass per unit.

    With page=P, at the budgets 2 P, 3 P, .. up to the least that holds the text.

    Parameters
    ----------
    trace : path, Trace, or sequence of these
        What to replay on.
    policies : str, class, or sequence of these
        As for `kvsim.sweep`. Only policies whose caches nest have a curve: `kvsim.policies` says
        which; "all" is every one of them.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    threads : int, optional
        Units worked on at once; see `kvsim.Options`.
    output : path, optional
        A result file (SQLite), in whose table `curve` rows of the same key are replaced.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in units.
    output_error : str, int, float, or sequence of these, default "none"
        At which budgets to compute output errors, too: "none", "all", "every:32", or budgets, as in
        ["5%", "10%"].
    **options : Options
        See `kvsim.Options`, without reference and every.

    Returns
    -------
    pandas.DataFrame
        The columns of the table `curve`, ordered by its key. Columns of output errors are NaN or NA
        where `output_error` does not ask for them.

    Raises
    ------
    UsageError
        For a policy without a curve; else as `kvsim.sweep`.
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
    The numbers are those of `kvsim curve`, bit for bit.

    Examples
    --------
    >>> frame = kvsim.curve(trace, policies=["window", "optimal"])
    >>> frame.groupby(["policy", "budget"]).attention_recall.mean().unstack(0).plot()
    """
    specs, errors = listed(policies), ",".join(listed(output_error))
    check_scratch(options.get("scratch"), output)
    absent = ("reference", "every")
    settings = options_without(absent, {"mode": mode, "threads": threads, **options})
    command = command_of("curve", trace, {"policies": specs, "output_error": errors, **settings})
    from .. import _engine

    with reporter(progress, "units") as report:
        (columns, about), notes = _engine.curve(
            engine_traces(trace), specs, settings, errors, file_name(output), command, report
        )
    warn_of(notes)
    return frame_of(columns, about)
