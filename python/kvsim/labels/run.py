"""Labels for learned eviction policies."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..verbs.progress import Progress, reporter
from .files import check_output, written
from .npz import head_entries, unit_entries
from .units import Labelling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from typing_extensions import Unpack

    from ..trace import Trace
    from ..verbs.options import Options

BLOCK = 256
"""Steps of a block: the eviction interval of ForesightKV."""


def labels(
    trace: str | Path | Trace,
    budgets: str | float | Sequence[str | float] | None = None,
    mode: str = "stream",
    threads: int | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    *,
    block: int = BLOCK,
    **options: Unpack[Options],
) -> dict[str, np.ndarray]:
    """What learned eviction policies train on, of every selected unit.

    Parameters
    ----------
    trace : path or Trace
        What to label.
    budgets : str, int, float, or sequence of these, optional
        In tokens or shares, as for kvsim.sweep. None: only labels of the attention, which take
        O(n^2) time and a block of memory; with budgets it is what `optimal` takes.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    threads : int, optional
        Units worked on at once; see `kvsim.Options`.
    output : path, optional
        A file .npz with the same arrays, or .parquet (needs pyarrow) with a row per unit, token and
        budget. It appears when it is complete, and replaces earlier labels only.
    progress : bool or callable, optional
        As for `kvsim.sweep`, in units.
    block : int, steps, default 256
        Steps of a block of `future_attention_blocks`; by default the eviction interval of
        ForesightKV.
    **options : Options
        See `kvsim.Options`: sequences, layers, heads, eviction_interval, page.

    Returns
    -------
    dict of str to ndarray
        By name, as listed in the notes.

    Raises
    ------
    UsageError
        For what does not exist or is ruled out; else as `kvsim.sweep`.
    DataError, KvsimError, KeyboardInterrupt
        As `kvsim.sweep`.

    Notes
    -----
    With n tokens, the group mean a[s,j] of the full attention, and the later steps of token j being
    the measured steps s > j, the arrays are

    SEQUENCE/LAYER/KV_HEAD/future_attention, shape (n,)
        a[s,j] summed over the later steps.
    .../future_attention_blocks, shape (blocks, n)
        The mean of a[s,j] over the steps of each block of measured steps; steps up to j count as 0.
    .../optimal_evicted_after, shape (budgets, n)
        The step after which `optimal` evicts j; n: never.
    .../next_access, shape (n,)
        The first later step with a[s,j] > 1/(s+1); n: never.
    .../slot_price, shape (budgets, n)
        By step: what one more slot from this step to the next is worth at most; 0 while the cache
        is not full, NaN under an eviction interval.
    SEQUENCE/budgets, shape (budgets,)
        In tokens.
    budgets
        The same, if all sequences agree.
    block, mode, trace_id
        Those of the call, and that of the trace.

    References
    ----------
    Which paper trains on which: oracle/labels/README.md.

    Examples
    --------
    >>> found = kvsim.labels(trace, budgets=["10%", "20%"])
    >>> found["text/1/2/future_attention"]  # of layer 1, KV head 2: [n]
    >>> found["text/1/2/optimal_evicted_after"][0]  # at 10%: [n]
    """
    path = None if output is None else check_output(output)
    labelling = Labelling(trace, budgets, block, {"mode": mode, "threads": threads, **options})
    found = dict(head_entries(labelling))
    with (
        reporter(progress, "units") as report,
        nullcontext() if path is None else written(path, labelling) as file,
    ):
        for unit in labelling.units(report):
            found.update(unit_entries(unit))
            if file is not None:
                file.add(unit)
    return found
