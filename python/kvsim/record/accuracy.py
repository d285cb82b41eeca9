"""Checks that attention recomputed from the stored numbers gives the outputs of the model."""

import warnings
from collections.abc import Mapping

import h5py
import numpy as np
import torch

from ..errors import RecordError, RecordWarning
from ..model.masks import Reach
from ..model.shape import Shape

MOST_STEPS = 256  # per head, evenly spaced: enough to find a systematic error
KEYS_AT_ONCE = 1024
LIMITS = {2: 1e-2, 4: 1e-4}  # of `kvsim verify`: relative error by the bytes of the narrowest type


def check_accuracy(
    sequence: str,
    layers: h5py.Group,
    reaches: Mapping[int, Reach],
    sinks: Mapping[int, np.ndarray],
    shape: Shape,
    rounded: bool,
) -> None:
    """Compares the outputs of a recorded sequence with attention recomputed from the file.

    `sinks` are the learned logits [query heads] of the layers that have some.

    If they differ by more than `kvsim verify` allows and the file has fewer digits than the model
    (`rounded`), it raises RecordError. If the model itself computed with too few digits, it warns.
    """
    for layer, reach in reaches.items():
        group = layers[str(layer)]
        limit = LIMITS[min(dataset.dtype.itemsize for dataset in group.values())]
        error = worst_error(group, reach, shape, sinks.get(layer))
        if error <= limit:
            continue
        found = (
            f"sequence {sequence}, layer {layer}: attention recomputed from the trace is "
            f"{error:.1e} off the model's, more than the {limit:g} that kvsim verify allows"
        )
        if rounded:
            raise RecordError(f"{found}; use --dtype float32")
        warnings.warn(f"{found}; load the model in float32", RecordWarning)


def worst_error(
    group: h5py.Group, reach: Reach, shape: Shape, sinks: np.ndarray | None = None
) -> float:
    """The largest relative error of any head's output at the sampled steps."""
    size = shape.num_query_heads // shape.num_kv_heads
    num_tokens = group["key"].shape[1]
    steps = np.unique(np.linspace(0, num_tokens - 1, MOST_STEPS).astype(int))
    worst = 0.0
    for kv_head in range(shape.num_kv_heads):
        heads = range(kv_head * size, (kv_head + 1) * size)
        query, recorded = (
            np.concatenate([group[name][head, steps] for head in heads]).astype(np.float64)
            for name in ("query", "output")
        )
        own = None if sinks is None else np.repeat(sinks[heads], len(steps))
        found = _outputs(group, kv_head, query, np.tile(steps, size), reach, shape, own)
        difference = np.linalg.norm(found - recorded, axis=1)
        length = np.linalg.norm(recorded, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(difference > 0, difference / length, 0)
        worst = max(worst, float(relative.max()))
    return worst


def _outputs(
    group: h5py.Group,
    kv_head: int,
    query: np.ndarray,
    steps: np.ndarray,
    reach: Reach,
    shape: Shape,
    sinks: np.ndarray | None,
) -> np.ndarray:
    """Attention outputs of the queries [m, dim] at these steps, one block of keys at a time.

    `sinks`: the learned logit of the head of each query, if there are any.
    """
    largest = np.full(len(query), np.finfo(np.float64).min / 2)  # the largest logit so far
    total = np.zeros(len(query))
    if sinks is not None:
        largest, total = sinks.astype(np.float64), np.ones(len(query))
    first_seen = reach.first_of(torch.from_numpy(steps)).numpy()
    output = np.zeros((len(query), shape.value_dim))
    for first in range(0, group["key"].shape[1], KEYS_AT_ONCE):
        key, value = (
            group[name][kv_head, first : first + KEYS_AT_ONCE].astype(np.float64)
            for name in ("key", "value")
        )
        logits = shape.scale * query @ key.T
        if shape.logit_softcap:
            logits = shape.logit_softcap * np.tanh(logits / shape.logit_softcap)
        tokens = np.arange(first, first + len(key))
        logits[(tokens > steps[:, None]) | (tokens < first_seen[:, None])] = -np.inf
        before, largest = largest, np.maximum(largest, logits.max(axis=1))
        shrink = np.exp(before - largest)
        weights = np.exp(logits - largest[:, None])
        total = total * shrink + weights.sum(axis=1)
        output = output * shrink[:, None] + weights @ value
    return output / total[:, None]
