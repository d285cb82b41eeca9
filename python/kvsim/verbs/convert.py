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

    >>> trace = kvsim.convert("old.h5", "new.h5")

    Arguments:
      trace: a file of any version, whoever wrote it.
      output: another file, which appears when it is complete.
      progress: as for kvsim.synth, in heads of datasets.

    Numbers, their types and what is missing stay as they are. What was the trace_id of a file of
    version 1 is the attribute `trace_id_v1` then.

    Returns the new trace. Raises DataError for a trace that is not sound, UsageError if `output` is
    the trace itself, KvsimError for a file that cannot be written, KeyboardInterrupt at Ctrl-C,
    when no file is left. Issues KvsimWarning for what the format does not know, which is left out.
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
