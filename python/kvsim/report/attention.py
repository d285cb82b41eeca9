"""The attention of one head, recomputed from its trace file."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from ..errors import KvsimError

_BLOCK = 256  # steps computed at once


class TraceError(KvsimError):
    """The trace is not there, or is another one."""


@dataclass(frozen=True)
class Head:
    """One query head of a trace."""

    query: np.ndarray  # [n, head_dim]
    key: np.ndarray  # [n, head_dim], of the KV head that it reads
    scale: float
    softcap: float | None
    window: int | None  # token j is visible at step t while t - j < window
    prompt_length: int

    def attention(self) -> Iterator[tuple[int, np.ndarray]]:
        """Blocks of full attention in order: the first step, and [steps, n] in 0..1."""
        tokens = np.arange(len(self.key))
        for first in range(0, len(self.query), _BLOCK):
            logits = self.scale * (self.query[first : first + _BLOCK] @ self.key.T)
            if self.softcap:
                logits = self.softcap * np.tanh(logits / self.softcap)
            age = (first + np.arange(len(logits)))[:, None] - tokens
            hidden = age < 0 if self.window is None else (age < 0) | (age >= self.window)
            logits[hidden] = -np.inf
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            yield first, weights / weights.sum(axis=1, keepdims=True)


def find_trace(named: str, beside: Path, trace_id: str) -> Path:
    """The file that rows name: as it is named, else beside the result file. Raises TraceError if it
    is not there or holds another trace."""
    candidates = [Path(named), beside / named, beside / Path(named).name]
    error = TraceError(f"the trace {named} is not there")
    for path in filter(Path.is_file, candidates):
        try:
            if _id(path) == trace_id:
                return path
            error = TraceError(f"{path} is another trace than the one that was replayed")
        except TraceError as unreadable:
            error = unreadable
    raise error


def read_head(path: Path, sequence: str, layer: int, query_head: int) -> Head:
    """Raises TraceError if the trace does not have the head."""
    try:
        with h5py.File(path, "r") as file:
            text = file["sequences"][sequence]
            group = text["layers"][str(layer)]
            share = int(file.attrs["num_query_heads"]) // int(file.attrs["num_kv_heads"])
            window = group.attrs.get("sliding_window")
            softcap = file.attrs.get("logit_softcap")
            return Head(
                query=group["query"][query_head].astype(np.float32),
                key=group["key"][query_head // share].astype(np.float32),
                scale=float(file.attrs["scale"]),
                softcap=None if softcap is None else float(softcap),
                window=None if window is None else int(window),
                prompt_length=int(text.attrs["prompt_length"]),
            )
    except (OSError, KeyError, IndexError, ValueError) as error:
        raise TraceError(
            f"{path} has no layer {layer}, query head {query_head} of {sequence}: {error}"
        ) from error


def _id(path: Path) -> str:
    try:
        with h5py.File(path, "r") as file:
            name = file.attrs.get("trace_id")
    except OSError as error:
        raise TraceError(f"{path} is no trace: {error}") from error
    if name is not None:
        return name.decode() if isinstance(name, bytes) else str(name)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Map:
    """Attention in square cells, for drawing: a cell holds the largest attention in it."""

    attention: np.ndarray  # [cells, cells], step by token, 0..1
    visible: np.ndarray  # [cells, cells], bool
    num_tokens: int
    width: int  # of a cell, in tokens


def cells_of(head: Head, most: int) -> Map:
    """At most `most` cells to a side."""
    n = len(head.key)
    width = -(-n // most)
    count = -(-n // width)
    cells = np.full((count, count), -1.0, dtype=np.float32)
    starts = np.arange(0, n, width)
    for first, weights in head.attention():
        tokens = np.arange(first, first + len(weights))[:, None] - np.arange(n)
        hidden = (tokens < 0) | (False if head.window is None else tokens >= head.window)
        shown = np.maximum.reduceat(np.where(hidden, -1.0, weights), starts, axis=1)
        np.maximum.at(cells, (first + np.arange(len(weights))) // width, shown)
    return Map(np.maximum(cells, 0), cells >= 0, n, width)


def kept_cells(evicted_after: np.ndarray, width: int) -> np.ndarray:
    """[cells, cells]: the share of a cell's tokens that its middle step attends to. A token is
    attended to up to the step after which it leaves."""
    n = len(evicted_after)
    starts = np.arange(0, n, width)
    steps = np.minimum(starts + width // 2, n - 1)
    kept = (evicted_after >= steps[:, None]).astype(np.float32)
    return np.add.reduceat(kept, starts, axis=1) / np.diff(np.append(starts, n))


def retained(head: Head, evicted_after: np.ndarray, first_measured: int) -> float:
    """attention_recall of this query head, 0..1: the mean over measured steps."""
    shares = [
        np.where(evicted_after >= first + np.arange(len(weights))[:, None], weights, 0).sum(axis=1)
        for first, weights in head.attention()
    ]
    return float(np.concatenate(shares)[first_measured:].mean())
