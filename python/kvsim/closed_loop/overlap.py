"""How much two replays of a text keep in common."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def overlap(a: Mapping[int, np.ndarray], b: Mapping[int, np.ndarray], first_step: int) -> float:
    """The mean of |kept and kept'| / |kept or kept'| after the steps from `first_step` on.

    `a` and `b` have evicted_after, int32 [Hkv, n], of the same layers; the mean is over their KV
    heads, too. Two empty sets are equal.
    """
    return float(np.mean([overlap_of_layer(a[layer], b[layer], first_step) for layer in a]))


def overlap_of_layer(a: np.ndarray, b: np.ndarray, first_step: int) -> float:
    """The same of one layer."""
    both = _held(np.minimum(a, b))[:, first_step:]
    either = _held(np.maximum(a, b))[:, first_step:]
    return float(np.where(either > 0, both / np.maximum(either, 1), 1.0).mean())


def _held(evicted_after: np.ndarray) -> np.ndarray:
    """How many tokens are held after each step, [Hkv, n]. Token j arrives at step j."""
    heads, n = evicted_after.shape
    gone = np.zeros((heads, n + 1), np.int64)
    np.add.at(gone, (np.arange(heads)[:, None], evicted_after), 1)
    return np.arange(1, n + 1) - np.cumsum(gone[:, :n], axis=1)
