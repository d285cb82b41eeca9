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

    >>> found = kvsim.labels(trace, budgets=["10%", "20%"])
    >>> found["text/1/2/future_attention"]                 # of layer 1, KV head 2: [n]
    >>> found["text/1/2/optimal_evicted_after"][0]         # at 10%: [n]

    Arguments:
      trace: a path or a Trace.
      budgets: in tokens or shares, as for kvsim.sweep. None: only labels of the attention, which
        take O(n^2) time and a block of memory; with budgets it is what `optimal` takes.
      mode, threads, progress: as for kvsim.sweep.
      output: a file .npz with the same arrays, or .parquet (needs pyarrow) with a row per unit,
        token and budget. It appears when it is complete, and replaces earlier labels only.
      block: steps of a block of `future_attention_blocks`.
      options: see kvsim.Options: sequences, layers, heads, eviction_interval, page.

    Returns arrays by name. With n tokens, the group mean a[s,j] of the full attention, and the
    later steps of token j being the measured steps s > j:
      SEQUENCE/LAYER/KV_HEAD/future_attention [n]: a[s,j] summed over the later steps.
      .../future_attention_blocks [blocks, n]: the mean of a[s,j] over the steps of each block of
        measured steps; steps up to j count as 0.
      .../optimal_evicted_after [budgets, n]: the step after which `optimal` evicts j; n: never.
      .../next_access [n]: the first later step with a[s,j] > 1/(s+1); n: never.
      .../slot_price [budgets, n]: by step: what one more slot from this step to the next is worth
        at most; 0 while the cache is not full, NaN under an eviction interval.
      SEQUENCE/budgets [budgets] in tokens; budgets, the same, if all sequences agree; block; mode;
        trace_id.
    oracle/labels/README.md says which paper trains on which. Raises what kvsim.sweep raises.
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
