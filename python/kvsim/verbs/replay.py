"""One policy at one budget on one unit, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..results.frames import frame_of
from ..trace import Trace
from .options import Options, engine_traces, listed, warn_of
from .progress import Progress, reporter
from .shared import options_without

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from typing_extensions import Unpack


@dataclass(frozen=True, eq=False)
class Replay:
    """What `kvsim.replay` returns. Arrays are read-only and keep their memory."""

    row: pd.Series
    """The row of the table `replay`."""
    evicted_after: np.ndarray
    """int32 [n]: the step after which a token left; n: never."""
    attention_recall: np.ndarray | None
    """float32 [G, measured steps], per query head of the group; None without a reference, NaN where
    it samples another step."""
    output_error: np.ndarray | None
    """The same of |o - o'| / |o|; NaN where `every` skips a step."""
    slot_price: np.ndarray | None
    """float64 [n], of an oracle that has prices: of one more slot of the cache after each step."""
    recall_bound: float | None
    """A proven upper bound of every policy's attention_recall; of some oracles."""
    intervals: dict[str, tuple[float, float] | None] | None
    """With `reference="sample:N"`: the 95% intervals of the row's means, by column, as in the table
    `sampled_interval`; None for what has none."""

    def __repr__(self) -> str:
        row = self.row
        unit = f"{row.sequence!r}, layer={row.layer}, kv_head={row.kv_head}"
        return f"kvsim.Replay({row.policy!r} at {row.budget} tokens: {unit})"


def replay(
    trace: str | Path | Trace,
    policy: str | type,
    budget: str | float,
    sequence: str | None = None,
    layer: int | None = None,
    kv_head: int | None = None,
    mode: str = "stream",
    progress: Progress = False,
    **options: Unpack[Options],
) -> Replay:
    """Replays one policy at one budget on one unit and returns what happened at every step.

    >>> replay = kvsim.replay(trace, policy="tova", budget=64, layer=1, kv_head=2)
    >>> replay.evicted_after  # [n]
    >>> replay.attention_recall.mean(axis=0)  # of every step

    Arguments:
      trace: a path or a Trace.
      policy, budget: one of those that kvsim.sweep takes.
      sequence, layer, kv_head: the unit. Each may be left out where the trace has only one.
      mode, progress: as for kvsim.sweep.
      options: see kvsim.Options, without sequences, layers, heads, shard and
        scratch.

    Returns a Replay: row, evicted_after, attention_recall, output_error, slot_price, recall_bound
    and intervals.
    Raises what kvsim.sweep raises.
    """
    opened = trace if isinstance(trace, Trace) else Trace(trace)
    name = opened.only_sequence() if sequence is None else sequence
    settings = options_without(
        ("sequences", "layers", "heads", "shard", "scratch"), {"mode": mode, **options}
    )
    layers = [each for text in opened.sequences if text.name == name for each in text.layers]
    if layer is None:
        layer = _only("layer", [each.index for each in layers])
    if kv_head is None:
        heads = [head for each in layers if each.index == layer for head in each.kv_heads]
        kv_head = _only("kv_head", heads)
    settings.update(sequences=[name], layers=str(layer), heads=str(kv_head))
    from .. import _engine

    with reporter(progress, "replays") as report:
        fields, notes = _engine.replay(
            engine_traces(opened)[0], listed(policy), listed(budget), settings, report
        )
    warn_of(notes)
    return Replay(**{**fields, "row": frame_of(fields["row"]).iloc[0]})


def _only(argument: str, recorded: list[int]) -> int:
    if len(recorded) == 1:
        return recorded[0]
    raise UsageError(f"{argument}: expected one of {', '.join(map(str, recorded)) or 'none'}")
