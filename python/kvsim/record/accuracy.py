"""How far attention recomputed from the stored numbers is from the outputs of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from .stored_type import Attention, Layer

MOST_STEPS = 256  # per head, evenly spaced: enough to find a systematic error
KEYS_AT_ONCE = 1024
LIMITS = {2: 1e-2, 4: 1e-4}  # of `kvsim verify`: the error by the bytes of the narrowest type


def worst_error(layer: Layer, types: Mapping[str, str], attention: Attention) -> float:
    """The largest error of any head's output at the sampled steps, of numbers in these types.

    It is |recomputed - recorded| over `sum_j a[t,j] |v_j|`, the length of what is summed. An output
    is much shorter than that where values cancel, or where a head rests on a token whose value is
    nearly zero; what float16 rounds is not.
    """
    shape = attention.shape
    size = shape.num_query_heads // shape.num_kv_heads
    steps = np.unique(np.linspace(0, layer["key"].rows - 1, MOST_STEPS).astype(int))

    def stored(name: str, head: int) -> Iterator[np.ndarray]:
        for part in layer[name].parts(head, KEYS_AT_ONCE):
            yield part.astype(types[name]).astype(np.float64)

    def at_steps(name: str, heads: range) -> np.ndarray:
        found = []
        for head in heads:
            for i, part in enumerate(stored(name, head)):
                own = steps - i * KEYS_AT_ONCE
                found.append(part[own[(own >= 0) & (own < len(part))]])
        return np.concatenate(found)

    worst = 0.0
    for kv_head in range(shape.num_kv_heads):
        heads = range(kv_head * size, (kv_head + 1) * size)
        query, recorded = at_steps("query", heads), at_steps("output", heads)
        blocks = zip(stored("key", kv_head), stored("value", kv_head), strict=True)
        own = None if attention.sinks is None else np.repeat(attention.sinks[heads], len(steps))
        found, summed = _outputs(query, np.tile(steps, size), blocks, attention, own)
        difference = np.linalg.norm(found - recorded, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(difference > 0, difference / summed, 0)
        worst = max(worst, float(relative.max()))
    return worst


def _outputs(
    query: np.ndarray,
    steps: np.ndarray,
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    attention: Attention,
    sinks: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention outputs of the queries [m, dim] at these steps, over blocks of keys and values.

    And the attention-weighted mean length [m] of the values. `sinks`: the learned logit of the head
    of each query, if there are any.
    """
    shape = attention.shape
    largest = np.full(len(query), np.finfo(np.float64).min / 2)  # the largest logit so far
    total = np.zeros(len(query))
    if sinks is not None:
        largest, total = sinks.astype(np.float64), np.ones(len(query))
    first_seen = attention.reach.first_of(torch.from_numpy(steps)).numpy()
    output, summed = np.zeros((len(query), shape.value_dim)), np.zeros(len(query))
    first = 0
    for key, value in blocks:
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
        summed = summed * shrink + weights @ np.linalg.norm(value, axis=1)
        first += len(key)
    return output / total[:, None], summed / total
