"""The heads of a model, and values of all of them as a table of layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..verbs.options import opened

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace


def by_layer(values: np.ndarray, heads: list[int]) -> np.ndarray:
    """Values [.., all heads] as [.., layers, most heads of a layer]."""
    table = np.full((*values.shape[:-1], len(heads), max(heads)), np.nan, values.dtype)
    for layer, part in enumerate(np.split(values, np.cumsum(heads)[:-1], axis=-1)):
        table[..., layer, : heads[layer]] = part
    return table


def heads_of(frame: pd.DataFrame, trace: str | Path | Trace | None) -> list[int]:
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
