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
    """What `kvsim.replay` returns. Arrays are read-only and keep their memory.

    Attributes
    ----------
    row : pandas.Series
        The row of the table `replay`.
    evicted_after : ndarray, int32, shape (n,)
        The step after which a token left; n: never.
    attention_recall : ndarray or None, float32, shape (group, measured steps)
        Per query head of the group. None without a reference, NaN where it samples another step.
    output_error : ndarray or None, float32, shape (group, measured steps)
        The error of the head outputs, norm(o - o') / norm(o). None without a reference, NaN where
        it samples another step or `every` skips the step.
    slot_price : ndarray or None, float64, shape (n,)
        Of an oracle that has prices: the price of one more slot of the cache after each step.
    recall_bound : float or None
        A proven upper bound of every policy's attention_recall; of some oracles.
    intervals : dict of str to (float, float) or None
        With `reference="sample:N"`: the 95% intervals of the row's means, by column, as in the
        table `sampled_interval`, None for a column that has none; without samples None.
    """

    row: pd.Series
    evicted_after: np.ndarray
    attention_recall: np.ndarray | None
    output_error: np.ndarray | None
    slot_price: np.ndarray | None
    recall_bound: float | None
    intervals: dict[str, tuple[float, float] | None] | None

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

    Parameters
    ----------
    trace : path or Trace
        What to replay on.
    policy : str or class
        One of those that `kvsim.sweep` takes.
    budget : str, int or float
        One of those that `kvsim.sweep` takes.
    sequence : str, optional
        The text of the unit; may be left out where the trace has only one.
    layer : int, optional
        The layer of the unit; may be left out where the text has only one.
    kv_head : int, optional
        The KV head of the unit; may be left out where the layer has only one.
    mode : {"stream", "prefill"}, default "stream"
        See `kvsim.Options`.
    progress : bool or callable, default False
        As for `kvsim.sweep`, in replays.
    **options : Options
        See `kvsim.Options`, without sequences, layers, heads, shard and scratch.

    Returns
    -------
    Replay
        The row of the table `replay`, and what happened at every step.

    Raises
    ------
    UsageError
        For a part of the unit that is left out where the trace has several; else as `kvsim.sweep`.
    DataError, KvsimError, KeyboardInterrupt
        As `kvsim.sweep`.
    Exception
        What a policy of Python raises, as `kvsim.sweep`.

    Warns
    -----
    KvsimWarning
        As `kvsim.sweep`.

    Examples
    --------
    >>> replay = kvsim.replay(trace, policy="tova", budget=64, layer=1, kv_head=2)
    >>> replay.evicted_after  # [n]
    >>> replay.attention_recall.mean(axis=0)  # of every step
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
