"""Recomputes the attention of one head from its trace file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import KvsimError
from ...trace import Trace

_BLOCK = 256  # steps computed at a time


class TraceError(KvsimError):
    """The trace is missing, or it is not the trace of the result file."""


@dataclass(frozen=True)
class Head:
    """One query head of a trace."""

    query: np.ndarray  # [n, head_dim]
    key: np.ndarray  # [n, head_dim], of its KV head
    scale: float
    softcap: float | None
    window: int | None  # token j is visible at step t while t - j < window
    prompt_length: int
    chunk: int | None = None  # and while j // chunk == t // chunk
    sink: float | None = None  # learned logit that takes attention and is no token
    selected: np.ndarray | None = None  # [n, K]: tokens that each step sees alone, -1 behind

    def hidden(self, first: int, count: int) -> np.ndarray:
        """Which tokens the steps from `first` on do not see, [count, n]."""
        steps, tokens = (first + np.arange(count))[:, None], np.arange(len(self.key))
        hidden = tokens > steps
        if self.window is not None:
            hidden |= steps - tokens >= self.window
        if self.chunk is not None:
            hidden |= steps // self.chunk != tokens // self.chunk
        if self.selected is not None:
            rows = self.selected[first : first + count]
            shown = np.zeros((count, len(tokens) + 1), bool)  # a column for -1
            np.put_along_axis(shown, rows, True, axis=1)
            hidden |= ~shown[:, :-1]
        return hidden

    def attention(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yields blocks of the full attention: the first step, and weights [steps, n] in 0..1."""
        sink = -np.inf if self.sink is None else self.sink
        for first in range(0, len(self.query), _BLOCK):
            logits = self.scale * (self.query[first : first + _BLOCK] @ self.key.T)
            if self.softcap:
                logits = self.softcap * np.tanh(logits / self.softcap)
            logits[self.hidden(first, len(logits))] = -np.inf
            most = np.maximum(logits.max(axis=1, keepdims=True), sink)
            weights = np.exp(logits - most)
            yield first, weights / (weights.sum(axis=1, keepdims=True) + np.exp(sink - most))


def find_trace(named: str, folder: Path, trace_id: str) -> Path:
    """Finds the trace file that the rows name: at this path, or in `folder`, the result file's.

    Raises TraceError if the file is missing or has another trace_id.
    """
    candidates = [Path(named), folder / named, folder / Path(named).name]
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
    """Reads one query head and its keys. Raises TraceError if the trace lacks the head."""
    try:
        trace = Trace(path)
        share = _group_size(trace, sequence, layer)
        unit = trace.unit(sequence, layer, query_head // share)
    except KvsimError as error:
        raise TraceError(
            f"{path} has no layer {layer}, query head {query_head} of {sequence}: {error}"
        ) from error
    sinks = unit.sink_logit
    return Head(
        query=unit.query[query_head % share],
        key=unit.key,
        scale=unit.scale,
        softcap=unit.logit_softcap,
        window=unit.sliding_window,
        prompt_length=unit.prompt_length,
        chunk=unit.attention_chunk,
        selected=unit.selected,
        sink=None if sinks is None else float(sinks[query_head % share]),
    )


def _group_size(trace: Trace, sequence: str, layer: int) -> int:
    """The query heads of a unit of the layer; 1 of a layer that is not there."""
    sizes = [
        each.shape["num_query_heads"] // each.shape["num_kv_heads"]
        for of_text in trace.sequences
        for each in of_text.layers
        if (of_text.name, each.cache) == (sequence, layer)
    ]
    return sum(sizes) or 1


def _id(path: Path) -> str:
    try:
        return Trace(path).trace_id
    except KvsimError as error:
        raise TraceError(f"{path} is no trace: {error}") from error


@dataclass(frozen=True)
class Map:
    """Attention in square cells, for drawing. A cell has the largest attention inside it."""

    attention: np.ndarray  # [cells, cells], step by token, 0..1
    visible: np.ndarray  # [cells, cells], bool
    num_tokens: int
    width: int  # of a cell, in tokens


def cells_of(head: Head, most: int) -> Map:
    """Reduces the attention of a head to at most `most` cells per side."""
    n = len(head.key)
    width = -(-n // most)
    count = -(-n // width)
    cells = np.full((count, count), -1.0, dtype=np.float32)
    starts = np.arange(0, n, width)
    for first, weights in head.attention():
        hidden = head.hidden(first, len(weights))
        shown = np.maximum.reduceat(np.where(hidden, -1.0, weights), starts, axis=1)
        np.maximum.at(cells, (first + np.arange(len(weights))) // width, shown)
    return Map(np.maximum(cells, 0), cells >= 0, n, width)


def kept_cells(evicted_after: np.ndarray, width: int) -> np.ndarray:
    """The share of each cell's tokens that are in the cache at its middle step, [cells, cells].

    A token is in the cache up to and including the step after which it is evicted.
    """
    n = len(evicted_after)
    starts = np.arange(0, n, width)
    steps = np.minimum(starts + width // 2, n - 1)
    kept = (evicted_after >= steps[:, None]).astype(np.float32)
    return np.add.reduceat(kept, starts, axis=1) / np.diff(np.append(starts, n))


def retained(head: Head, evicted_after: np.ndarray, first_measured: int) -> float:
    """The attention_recall of this query head, 0..1, the mean over measured steps."""
    lost = [
        np.where(evicted_after < first + np.arange(len(weights))[:, None], weights, 0).sum(axis=1)
        for first, weights in head.attention()
    ]
    return float(1 - np.concatenate(lost)[first_measured:].mean())
