"""Splits a model's budget over its heads by their curves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..verbs.options import opened

if TYPE_CHECKING:
    import pandas as pd

    from ..results import Results
    from ..trace import Trace

RATIOS = 99
_PARTS = 1000  # of a head's tokens that are assigned one by one; 10 per percent
_KEY = ("trace_id", "policy", "mode", "seed")


def head_budgets(
    curves: str | os.PathLike[str] | Results | pd.DataFrame,
    policy: str | None = None,
    *,
    sequences: str | Sequence[str] | None = None,
    trace: str | Path | Trace | None = None,
) -> np.ndarray:
    """Splits a model's budget over its heads so that the total recall is largest.

    >>> curves = kvsim.curve(trace, policies="tova", mode="prefill")
    >>> np.save("budgets.npy", kvsim.head_budgets(curves, trace=trace))

    Arguments:
      curves: a frame of kvsim.curve, or a result file with a table `curve`, of all layers and KV
        heads of a model.
      policy: whose curves, by its name or spec, where there are several: a split is as good as
        the policy that it was made for.
      sequences: names; None: all. Their curves are averaged at equal shares of their length.
      trace: the trace of the curves, a path or a Trace, which knows how many layers and KV heads
        the model has. None: the highest ones with curves count as its last, so that curves of its
        first layers alone pass for a smaller model.

    Returns float32 [99, layers, kv_heads]: row i is for the compression ratio (i + 1) / 100, its
    values are the share of its tokens that each head *removes*, and their mean is the ratio; NaN
    where layers have fewer heads than others, or read the cache of another one. These are what the
    press of kvpress (LU-KV, arXiv 2602.08585) takes of a file.

    With U(b) the recall of a head at budget b, the mean over steps, and the total kept fixed, the
    sum of all U is largest where the next token goes to the head that gains most by it (marginal
    utility), if each U is concave; a U that is not is replaced by its least concave majorant, as in
    the paper. Budgets are shares of the text, in prefill mode of the prompt, in steps of 1/1000;
    between budgets U is linear, from 0 at none. Raises UsageError for curves that are not those of
    one policy, trace, mode and seed on all heads, or are of pages, and what opening the trace
    raises.
    """
    frame = _curves_of(curves, policy, sequences)
    heads = _heads_of(frame, trace)
    gains = np.stack([_gains(of_head) for _, of_head in frame.groupby(["layer", "kv_head"])])
    # The first part of every head comes before the second where they gain the same.
    order = np.lexsort((np.tile(np.arange(_PARTS), len(gains)), -gains.ravel()))
    head_of = np.repeat(np.arange(len(gains)), _PARTS)[order]
    removed = []
    for ratio in range(1, RATIOS + 1):
        parts = (100 - ratio) * _PARTS // 100 * len(gains)
        kept = np.bincount(head_of[:parts], minlength=len(gains)) / _PARTS
        removed.append(1 - kept)
    return _by_layer(np.array(removed, np.float32), heads)


def _curves_of(
    curves: object, policy: str | None, sequences: str | Sequence[str] | None
) -> pd.DataFrame:
    if isinstance(curves, (str, os.PathLike)):
        from ..results import load

        curves = load(curves)
    frame = getattr(curves, "curve", curves)
    if policy is not None:
        there = sorted(frame.policy.unique())
        frame = frame[(frame.policy == policy) | (frame.policy.str.split("[:+@]").str[0] == policy)]
        if frame.empty:
            raise UsageError(f"policy: there is no curve of {policy}; there are {'; '.join(there)}")
    if sequences is not None:
        names = [sequences] if isinstance(sequences, str) else list(sequences)
        for name in names:
            if name not in set(frame.sequence):
                raise UsageError(f"sequences: there is no curve of {name}")
        frame = frame[frame.sequence.isin(names)]
    paged = [mode for mode in frame["mode"].unique() if "page=" in mode]
    if paged:
        raise UsageError(
            f"mode: expected curves of caches that evict token by token, found {paged[0]}, whose "
            "budgets are whole pages; make curves without page"
        )
    for column in _KEY:
        found = [str(value) for value in frame[column].unique()]
        if len(found) != 1:
            fix = "name one" if column == "policy" else "make a file of one"
            raise UsageError(f"{column}: expected curves of one, found {'; '.join(found)}; {fix}")
    return frame


def _by_layer(values: np.ndarray, heads: list[int]) -> np.ndarray:
    """Values [.., all heads] as [.., layers, most heads of a layer]."""
    table = np.full((*values.shape[:-1], len(heads), max(heads)), np.nan, values.dtype)
    for layer, part in enumerate(np.split(values, np.cumsum(heads)[:-1], axis=-1)):
        table[..., layer, : heads[layer]] = part
    return table


def _heads_of(frame: pd.DataFrame, trace: str | Path | Trace | None) -> list[int]:
    """The KV heads of each layer's cache, of curves that have all of them in every sequence."""
    last = frame.groupby("layer").kv_head.max()
    heads = [int(last.get(layer, last.max())) + 1 for layer in range(frame.layer.max() + 1)]
    if trace is not None:
        (model,) = opened(trace)
        if model.trace_id != frame.trace_id.iloc[0]:
            raise UsageError(
                f"trace: expected that of the curves, {frame.trace_id.iloc[0]}, found "
                f"{model.trace_id}"
            )
        own = {
            each.index: each.shape["num_kv_heads"] if each.kv_from is None else 0
            for text in model.sequences
            for each in text.layers
        }
        heads = [own.get(layer, model.num_kv_heads) for layer in range(model.num_layers)]
    for sequence, rows in frame.groupby("sequence"):
        found = rows.groupby(["layer", "kv_head"]).ngroups
        if found != sum(heads):
            each = f"{heads[0]} KV heads" if len(set(heads)) == 1 else "their KV heads"
            raise UsageError(
                f"expected curves of {len(heads)} layers x {each} in sequence {sequence}, "
                f"found {found}; make curves of all heads"
            )
    return heads


def _gains(of_head: pd.DataFrame) -> np.ndarray:
    """What each further part of its tokens adds to the recall of a head: [_PARTS], falling."""
    shares = np.arange(_PARTS + 1) / _PARTS
    curves = []
    for _, rows in of_head.sort_values("budget").groupby("sequence"):
        budgets, recall = rows.budget.to_numpy(), rows.attention_recall.to_numpy()
        prompt = budgets[-1] - rows.steps.iloc[0]  # 0 in stream mode
        length = prompt if prompt > 0 else budgets[-1]
        curves.append(np.interp(shares * length, [0, *budgets], [0, *recall]))
    return np.diff(_least_concave_majorant(np.mean(curves, axis=0)))


def _least_concave_majorant(values: np.ndarray) -> np.ndarray:
    """Of values at 0, 1, 2, ...: the upper part of their convex hull."""
    corners: list[int] = []
    for right in range(len(values)):
        while len(corners) > 1:
            left, middle = corners[-2:]
            rise = (values[right] - values[left]) * (middle - left)
            if (values[middle] - values[left]) * (right - left) > rise:
                break
            corners.pop()
        corners.append(right)
    return np.interp(np.arange(len(values)), corners, values[corners])
