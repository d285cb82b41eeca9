"""Traces of earlier versions of the format, and of other programs."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from ..errors import KvsimWarning
from ..trace import Trace
from .progress import Progress, reporter


def convert(
    trace: str | os.PathLike[str] | Trace,
    output: str | os.PathLike[str],
    *,
    progress: Progress = None,
) -> Trace:
    """Writes a trace in the newest version of the format, whose digests tell damage.

    Numbers, their types and what is missing stay as they are. What was the trace_id of a file of
    version 1 is the attribute `trace_id_v1` then.

    Parameters
    ----------
    trace : path or Trace
        A file of any version, whoever wrote it.
    output : path
        Another file, which appears when it is complete.
    progress : bool or callable, optional
        As for `kvsim.synth`, in heads of datasets.

    Returns
    -------
    Trace
        The new trace.

    Raises
    ------
    DataError
        For a trace that is not sound.
    UsageError
        If `output` is the trace itself.
    KvsimError
        For a file that cannot be written.
    KeyboardInterrupt
        At Ctrl-C, when no file is left.

    Warns
    -----
    KvsimWarning
        For what the format does not know, which is left out.

    References
    ----------
    The format and its versions: traces/README.md.

    Examples
    --------
    >>> trace = kvsim.convert("old.h5", "new.h5")
    """
    from .. import _engine

    opened = trace if isinstance(trace, Trace) else Trace(trace)
    with reporter(progress, "heads") as report:
        made, left_out = _engine.convert(opened._opened, Path(output), report)
    if left_out:
        named = ", ".join(left_out)
        warnings.warn(
            f"left out, as the format does not know it: {named}", KvsimWarning, stacklevel=2
        )
    return Trace._of(made)
