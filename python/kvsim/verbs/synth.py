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

    >>> trace = kvsim.synth(tokens=512, layers=1, kv_heads=2, query_heads=8)

    Arguments:
      path: the file to write, which appears when it is complete; None: the trace is in memory.
      progress: None, a bar on terminals and in notebooks; True or False; or called with (percent
        done, 100).
      options: those of `kvsim synth --help`, with "_" for "-": tokens=1024, prompt_length=0,
        layers=2, query_heads=4, kv_heads=2, head_dim=64, value_dim=0, hidden=0,
        gradient_samples=0, mlp_width=0, rope_base=0.0, seed=0, dtype="float16",
        no_output=False, sinks=4, sink_strength=4, local_strength=3, local_decay=0.9,
        heavy_strength=1, heavy_exponent=2, retrieval_share=0.25, retrieval_strength=8,
        retrieval_period=0, drift=0, noise=0.5, sink_logit=None, attention_chunk=0;
        threads=1 makes one KV head at a time, without it as many as there are cores.

    The same options give the same `trace_id`, whatever `threads` is. Raises UsageError for an
    option that does not exist or is out of range, KvsimError for a file that cannot be written,
    KeyboardInterrupt at Ctrl-C, when no file is left.
    """
    from .. import _engine

    with reporter(progress, "%") as report:
        made = _engine.synth(None if path is None else Path(path), options, report)
    return Trace._of(made)
