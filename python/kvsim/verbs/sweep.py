"""Replays policies at budgets over traces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError, WorkerError
from ..executors import run_parts
from ..results.frames import frame_of
from ..trace import Trace
from .options import Options, check_scratch, engine_options, listed, opened, warn_of
from .progress import Progress, reporter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd
    from typing_extensions import Unpack

Traces = str | Path | Trace | Sequence[str | Path | Trace]


def sweep(
    trace: Traces,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    mode: str = "stream",
    threads: int | None = None,
    output: str | Path | None = None,
    progress: Progress = None,
    executor: Executor | None = None,
    *,
    force: bool = False,
    **options: Unpack[Options],
) -> pd.DataFrame:
    """Replays every policy at every budget on every selected unit: one row each.

    Parameters
    ----------
    trace : path, Trace, or sequence of these
        What to replay on.
    policies : str, class, or sequence of these
        Specs as the program takes them, in a list or separated by ";": "h2o:recent=0.25", grids
        "h2o:recent={0,0.5}", labels "mine=h2o:recent=8", "all", "oracles"; and classes below
        `kvsim.Policy`.
    budgets : str, int, float, or sequence of these
        Tokens (64), shares of the text ("10%", 0.1), bytes per KV head ("64KiB"), of which each
        policy keeps the most tokens that fit as it stores them, or ranges ("5%..50%:5%").
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    threads : int, optional
        Units worked on at once; see `kvsim.Options`.
    output : path, optional
        A result file (SQLite). Rows that it holds of the same code are not replayed again, new ones
        are added as they are finished. Without it nothing is written.
    progress : bool or callable, optional
        Called with (replays done, all replays); True or False: a bar, or none. By default a bar on
        terminals and in notebooks.
    executor : concurrent.futures.Executor, optional
        One such as ProcessPoolExecutor(8), or alike: units are replayed in its workers, 1 to 20
        seconds of work at a time, each in one thread unless `threads` says more; this process
        writes `output`. See Notes.
    force : bool, default False
        Replays also what `output` holds already.
    **options : Options
        See `kvsim.Options`: sequences, layers, heads, eviction_interval, page, page_score, seed,
        allocate, reference, every, device, shard, scratch.

    Returns
    -------
    pandas.DataFrame
        The columns of the table `replay`, ordered by its key, of all rows that were asked for,
        those included that `output` held. `run_id` is empty without `output`. NULL is NaN, NA in
        columns of integers, and None in columns of texts. `attrs["about"]` has the meaning and the
        unit of each column.

    Raises
    ------
    UsageError
        For what does not exist or is ruled out.
    DataError
        For a trace that cannot be read.
    WorkerError
        For units that kill every worker, when all others are stored.
    KvsimError
        For what else fails.
    KeyboardInterrupt
        At Ctrl-C: `output` then keeps the finished units, and the same call does the rest.
    Exception
        What a policy of Python raises, with a note of the policy, the unit and the step.

    Warns
    -----
    KvsimWarning
        Where something runs other than it was asked for.

    Notes
    -----
    The numbers are those of `kvsim sweep`, bit for bit.

    An executor is for many machines, and for policies of Python, of which a process runs one at a
    time. Workers open the paths of traces, or get those in memory, up to 64 MiB, and 2 GiB over all
    tasks; they get classes by cloudpickle. What a worker leaves that dies is done again.

    Examples
    --------
    >>> frame = kvsim.sweep("trace.h5", policies=["h2o", "tova"], budgets=["10%", 64])
    >>> frame.groupby(["policy", "budget"]).attention_recall.mean()
    """
    all_options = {"mode": mode, "threads": threads, **options}
    frame, notes = sweep_as(
        None, trace, policies, budgets, all_options, output, progress, executor, force
    )
    warn_of(notes)
    return frame


def sweep_as(
    command: str | None,
    trace: Traces,
    policies: str | type | Sequence[str | type],
    budgets: str | float | Sequence[str | float],
    options: dict[str, object],
    output: str | Path | None = None,
    progress: Progress = None,
    executor: Executor | None = None,
    force: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """`sweep` with the command that the table `run` names; None: the call in words.

    Returns the frame, and the notes that `sweep` issues as warnings.
    """
    specs, amounts = listed(policies), listed(budgets)
    if not any(specs) or not any(amounts):
        raise UsageError("a sweep takes at least one policy and one budget")
    check_scratch(options.get("scratch"), output)
    settings = engine_options(options)
    arguments = {"policies": specs, "budgets": amounts, **settings}
    if output is not None:
        output = os.fspath(output)
    from .. import _engine

    traces, command = opened(trace), command or command_of("sweep", trace, arguments)
    request = ([each._opened for each in traces], specs, amounts, settings, output, force, command)
    with reporter(progress, "replays") as report:
        if executor is None:
            columns, notes, _ = _engine.sweep(*request, report)
        else:
            with closing(_engine.PartedSweep(*request)) as parted:
                skipped = run_parts(executor, parted, traces, amounts, settings, report)
                columns, notes = parted.columns(), parted.notes()
                if skipped:
                    missing = parted.total() - parted.done()
                    raise _error_of(skipped, frame_of(columns), missing, output)
                parted.finish()
    return frame_of(columns), notes


def _error_of(
    skipped: list[str], frame: pd.DataFrame, missing: int, output: str | None
) -> WorkerError:
    named = "; ".join(skipped[:5]) + (f"; and {len(skipped) - 5} more" if skipped[5:] else "")
    error = WorkerError(
        f"executor: {missing} replays were skipped, as workers died of them again and again, for "
        f"want of memory perhaps: {named}; all other rows are in "
        f"{'this error as frame' if output is None else output}; without an executor, the same "
        "call on these units shows why"
    )
    error.frame = frame
    return error


def command_of(function: str, trace: Traces, arguments: dict[str, object]) -> str:
    """A call in words, for the table `run`."""
    named = [trace] if isinstance(trace, (str, Path, Trace)) else list(trace)
    shown = [each if isinstance(each, Trace) else os.fspath(each) for each in named]
    first = repr(shown[0] if len(shown) == 1 else shown)
    words = [first, *(f"{name}={value!r}" for name, value in arguments.items())]
    return f"kvsim.{function}({', '.join(words)})"
