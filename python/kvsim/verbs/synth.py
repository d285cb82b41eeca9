"""Traces that are made up."""

from __future__ import annotations

import os
from pathlib import Path

from ..trace import Trace
from .progress import Progress, reporter


def synth(
    path: str | os.PathLike[str] | None = None, progress: Progress = None, **options: object
) -> Trace:
    """Makes a trace of one sequence, `synthetic`, with what the papers describe of attention.

    The same options make the same `trace_id`, whatever `threads` is.

    Parameters
    ----------
    path : path, optional
        The file to write, which appears when it is complete. Without it the trace is in memory.
    progress : bool or callable, optional
        Called with (percent done, 100); True or False: a bar, or none. By default a bar on
        terminals and in notebooks.
    **options : int, float, bool or str
        Those of `kvsim synth --help`, which has their meaning, with "_" for "-": tokens=1024,
        prompt_length=0, layers=2, query_heads=4, kv_heads=2, head_dim=64, value_dim=0, hidden=0,
        gradient_samples=0, mlp_width=0, rope_base=0.0, seed=0, dtype="float16", no_output=False,
        sinks=4, sink_strength=4, local_strength=3, local_decay=0.9, heavy_strength=1,
        heavy_exponent=2, retrieval_share=0.25, retrieval_strength=8, retrieval_period=0, drift=0,
        noise=0.5, sink_logit=None, attention_chunk=0; threads=1 makes one KV head at a time,
        without it as many as there are cores.

    Returns
    -------
    Trace
        The trace, of the file or in memory.

    Raises
    ------
    UsageError
        For an option that does not exist or is out of range.
    KvsimError
        For a file that cannot be written.
    KeyboardInterrupt
        At Ctrl-C, when no file is left.

    Examples
    --------
    >>> trace = kvsim.synth(tokens=512, layers=1, kv_heads=2, query_heads=8)
    """
    from .. import _engine

    with reporter(progress, "%") as report:
        made = _engine.synth(None if path is None else Path(path), options, report)
    return Trace._of(made)
