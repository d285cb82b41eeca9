"""Compares attention, computed from what a trace will hold, with the outputs of a dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .. import _engine
from ..errors import DataError

LIMITS = {2: 1e-2, 4: 1e-4}  # of `kvsim verify`, by the bytes of the narrowest type


@dataclass(frozen=True)
class Logits:
    """How a layer computes logits."""

    scale: float
    logit_softcap: float | None = None
    sliding_window: int | None = None


def prove(arrays: Mapping[str, np.ndarray], logits: Logits, place: str) -> float:
    """The largest error, as `kvsim verify` has it, of a layer's arrays [heads, tokens, dim].

    Raises DataError, which names the first KV head whose outputs differ by more than the limit.
    """
    narrowest = min(arrays[name].dtype.itemsize for name in ("key", "value", "output"))
    limit, worst = LIMITS[narrowest], 0.0
    for head in range(len(arrays["key"])):
        error = _error(arrays, head, logits)
        if not error <= limit:
            token = _first_token(arrays, head, logits, limit)
            raise DataError(
                f"{place}, KV head {head}{token}: attention computed from the dump is {error:.1e} "
                f"off its output, more than the {limit:g} that kvsim verify allows; "
                f"{_hint(arrays, head, logits, limit, token)}"
            )
        worst = max(worst, error)
    return worst


def _group(arrays: Mapping[str, np.ndarray], head: int) -> tuple[np.ndarray, ...]:
    size = len(arrays["query"]) // len(arrays["key"])
    heads = slice(head * size, (head + 1) * size)
    parts = arrays["query"][heads], arrays["key"][head], arrays["value"][head]
    return tuple(
        np.ascontiguousarray(part, np.float32) for part in (*parts, arrays["output"][heads])
    )


def _error(arrays: Mapping[str, np.ndarray], head: int, logits: Logits) -> float:
    return _engine.output_error(
        *_group(arrays, head), scale=logits.scale, logit_softcap=logits.logit_softcap,
        sliding_window=logits.sliding_window, attention_chunk=None, sink_logit=[], selected=None,
    )  # fmt: skip


def _first_token(arrays: Mapping[str, np.ndarray], head: int, logits: Logits, limit: float) -> str:
    """The shortest beginning of the text that differs, by halving: an error only grows."""
    low, high = 0, arrays["key"].shape[1]  # the first `low` tokens agree, the first `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        begin = {name: each[:, :middle] for name, each in arrays.items()}
        low, high = (middle, high) if _error(begin, head, logits) <= limit else (low, middle)
    return f", from token {low} on"


def _hint(
    arrays: Mapping[str, np.ndarray], head: int, logits: Logits, limit: float, token: str
) -> str:
    dim = arrays["key"].shape[-1]
    for scale in (1.0, dim**-0.5, 1 / dim):
        other = Logits(scale, logits.logit_softcap, logits.sliding_window)
        if scale != logits.scale and _error(arrays, head, other) <= limit:
            return f"with scale={scale:g} it agrees"
    if " 0 " in token:
        return (
            "token 0 attends to itself alone: is its output behind the output projection, of "
            "another layer, without a causal mask, or is there a learned sink?"
        )
    return (
        "is it another scale or softcap, keys before rotation, a sliding window, or a query and "
        "key of different layers?"
    )
