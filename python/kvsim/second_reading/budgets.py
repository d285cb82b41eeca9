"""The budgets of heads that follow from scores of all heads together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..files.head_tables import RATIOS


def require_all_layers(layers: Collection[int], num_layers: int) -> None:
    """Raises UsageError unless these are all layers of a model."""
    if missing := set(range(num_layers)) - set(layers):
        raise UsageError(
            f"budgets: expected scores of all {num_layers} layers, found none of layer "
            f"{min(missing)}; record all layers"
        )


def removed_shares(scores: Mapping[int, np.ndarray], sinks: int) -> np.ndarray:
    """What each head removes where the lowest scores of all layers and heads leave together.

    `scores` has of each layer [KV heads, tokens]. Returns float32 [99, layers, KV heads]: row i is
    for the compression ratio (i + 1) / 100, at which int(ratio * all scores) tokens leave; NaN
    where layers have fewer heads than others. The first `sinks` tokens count as the highest. Of
    equal scores, the first of the lowest layer leaves first.

    This is the split of KVzipPress of kvpress 0.5.5 with layerwise=False, which leaves the order
    of equal scores to torch.topk.
    """
    layers = [scores[layer].astype(np.float32) for layer in sorted(scores)]
    heads = np.concatenate(layers)
    heads[:, :sinks] = np.inf
    num_heads, num_tokens = heads.shape
    order = np.argsort(heads, axis=None, kind="stable") // num_tokens  # the head of each score
    shares = np.full((RATIOS, len(layers), max(map(len, layers))), np.nan, np.float32)
    ends = np.cumsum([len(layer) for layer in layers])[:-1]
    for row in range(RATIOS):
        leaving = int(heads.size * ((row + 1) / 100))
        removed = np.bincount(order[:leaving], minlength=num_heads) / num_tokens
        for layer, part in enumerate(np.split(removed, ends)):
            shares[row, layer, : len(part)] = part
    return shares


def holds_budgets(path: Path) -> bool:
    """Whether a file .npy has numbers [99, layers, KV heads], as `removed_shares` gives them."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return False
    is_array = isinstance(found, np.ndarray)  # and no archive of several
    return is_array and found.dtype.kind == "f" and found.ndim == 3 and len(found) == RATIOS
