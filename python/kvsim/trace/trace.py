"""Traces: files of queries, keys and values, or arrays in memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ..errors import DataError, UsageError
from .contents import Layer, Sequence
from .spans import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from .. import _engine

_MOST_SHOWN = 20  # sequences in a notebook


@dataclass(frozen=True, eq=False)
class Unit:
    """One KV head over a text of n tokens: read-only arrays that keep their memory."""

    sequence: str
    layer: int
    kv_head: int
    prompt_length: int
    scale: float  # logit = scale * <query, key>, before soft-capping
    logit_softcap: float | None
    sliding_window: int | None
    token_ids: np.ndarray  # int32 [n], or empty
    token_text: tuple[str, ...]  # n, or none
    query: np.ndarray  # float32 [G, n, head_dim]: the query heads of its group
    key: np.ndarray  # float32 [n, head_dim], after positional rotation
    value: np.ndarray  # float32 [n, value_dim]
    output_projection: np.ndarray | None = None  # float32 [G, value_dim, hidden]: W_O of each head
    residual_square: np.ndarray | None = None  # float64 [n]: squared norms of the residual stream
    output_score_grad: np.ndarray | None = None  # float32 [S, G, n, value_dim]
    attention_chunk: int | None = None  # token j is visible at t while j // chunk == t // chunk
    sink_logit: np.ndarray | None = None  # float32 [G]: takes attention and gives no value
    selected: np.ndarray | None = None  # int32 [n, K]: what each step sees alone, -1 behind

    @property
    def num_tokens(self) -> int:
        return len(self.key)

    def __repr__(self) -> str:
        place = f"{self.sequence!r}, layer={self.layer}, kv_head={self.kv_head}"
        return f"kvsim.Unit({place}: {self.num_tokens} tokens, {len(self.query)} query heads)"


class Trace:
    """Queries, keys and values of one model on some texts, open for reading.

    >>> trace = kvsim.Trace("trace.h5")
    >>> trace.sequences[0].num_tokens
    >>> trace.unit("text", layer=1, kv_head=2).key  # [n, head_dim]

    Opening checks everything but the recorded numbers, which are checked when they are read. Raises
    DataError, which names the file, the dataset, what was expected and what was found. Threads may
    share a trace. A pickled trace is its path, or its bytes if it is in memory; another file under
    that path is a DataError.

    Attributes, as in the file: model, num_layers, num_query_heads, num_kv_heads, head_dim,
    value_dim, scale, logit_softcap (or None), recorder, dtype (float16, float32, mixed, or empty),
    rope (or None: a dict of inv_freq, style and attention_factor). A layer of a sequence has its
    own of num_query_heads to rope as `shape`.
    """

    model: str
    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    scale: float
    logit_softcap: float | None
    recorder: str
    dtype: str
    rope: dict[str, object] | None

    def __init__(self, path: str | os.PathLike[str]):
        from .. import _engine

        self._take(_engine.Trace(os.fspath(path)))

    @classmethod
    def from_arrays(
        cls,
        query: ArrayLike | Mapping[int, tuple[ArrayLike, ArrayLike, ArrayLike]],
        key: ArrayLike | None = None,
        value: ArrayLike | None = None,
        scale: float | Mapping[int, float] | None = None,
        prompt_length: int = 0,
        name: str = "sequence",
        *,
        token_ids: ArrayLike | None = None,
        model: str = "arrays",
        rope: Mapping[str, object] | Mapping[int, Mapping[str, object]] | None = None,
        logit_softcap: float | None = None,
        sliding_window: int | Mapping[int, int] | None = None,
        attention_chunk: int | Mapping[int, int] | None = None,
        sink_logit: ArrayLike | Mapping[int, ArrayLike] | None = None,
        kv_from: Mapping[int, int] | None = None,
        selected: ArrayLike | Mapping[int, ArrayLike] | None = None,
        num_layers: int | None = None,
        spans: Iterable[tuple[int, int, str]] | None = None,
        label_seed: int = 0,
        **also: ArrayLike | Mapping[int, ArrayLike] | None,
    ) -> Trace:
        """A trace in memory, of one text; it has no file.

        >>> trace = kvsim.Trace.from_arrays(query, key, value)
        >>> trace = kvsim.Trace.from_arrays({0: (q0, k0, v0), 5: (q5, k5, v5)}, prompt_length=512)

        Arguments:
          query: [Hq, n, d], after positional rotation, before scaling; or a dict from layer to
            (query, key, value), all of the same n, in place of all three.
          key: [Hkv, n, d], after positional rotation. Hq is a multiple of Hkv.
          value: [Hkv, n, dv].
          scale: logit = scale * <query, key>, or a dict from layer to that; None: 1 / sqrt(d).
          prompt_length: of the n tokens, the prompt; 0: none.
          name: of the text.
          token_ids: [n].
          model: its name.
          rope: dict of inv_freq [rotary dimensions / 2], style ("half" or "interleaved") and
            attention_factor, for what has to undo the rotation; or a dict from layer to that.
          logit_softcap: logits become cap * tanh(logit / cap).
          sliding_window: of every layer, or a dict from layer to its window.
          attention_chunk: tokens of a chunk, outside of which nothing is visible; likewise.
          sink_logit: a learned logit per query head that takes attention and gives no value, [Hq],
            of every layer, or a dict from layer to that.
          kv_from: for layers that read the keys and values of another layer, a dict from layer to
            that; they have None in place of key and value, and their queries are in its units.
          selected: tokens that the model itself selected at each step, which sees no others, [n, K]
            of every layer, or a dict from layer to that: ascending, -1 behind.
          num_layers: of the model; None: the highest given layer + 1.
          spans: labelled parts of the text, (first token, token after the last, label) each.
          label_seed: of the draws for output_score_grad.
          also: what else a trace may hold of a layer (traces/README.md), an array or a dict from
            layer to that: output_projection [Hq * dv, hidden], residual [n, hidden],
            output_score_grad [S, Hq, n, dv], mlp_activation [n, width] ...

        Arrays are numpy arrays, tensors, or what numpy makes arrays of. They are copied. If
        queries, keys and values are all float16, so is the trace; else all become float32, from
        float64 by rounding.

        `trace_id` is the one that the same numbers would have in a file. Raises UsageError for
        shapes that do not fit, DataError for numbers that are not finite.
        """
        from .arrays import trace_of_arrays

        layers = query if isinstance(query, Mapping) else {0: (query, key, value)}
        if isinstance(query, Mapping) and not (key is None and value is None):
            raise UsageError("from_arrays: expected a dict of layers, or query, key and value")
        return cls._of(
            trace_of_arrays(
                layers, scale, prompt_length, name, token_ids, model, rope, logit_softcap,
                {"sliding_window": sliding_window, "attention_chunk": attention_chunk},
                sink_logit, kv_from or {}, selected, num_layers, spans,
                also, label_seed,
            )
        )  # fmt: skip

    @classmethod
    def _of(cls, opened: _engine.Trace) -> Trace:
        trace = cls.__new__(cls)
        trace._take(opened)
        return trace

    def _take(self, opened: _engine.Trace) -> None:
        self._opened = opened
        for name, value in opened.header().items():
            setattr(self, name, value)
        self.sequences = tuple(
            Sequence(
                *entry[:4],
                tuple(Layer(*layer) for layer in entry[4]),
                tuple(Span(*span) for span in entry[5]),
            )
            for entry in opened.sequences()
        )
        """The recorded texts, by name."""

    @property
    def path(self) -> str | None:
        """The path as it was given; None: the trace is in memory."""
        return None if self._opened.in_memory() else self._opened.file()

    @property
    def trace_id(self) -> str:
        """The SHA-256 of all datasets (traces/README.md); of a file without it, of the file."""
        return self._opened.id()

    def unit(self, sequence: str | None = None, layer: int = 0, kv_head: int = 0) -> Unit:
        """Reads one KV head with its query heads. Raises DataError if the trace lacks it.

        >>> trace.unit("text", layer=1, kv_head=2).value

        `sequence` may be left out if there is only one.
        """
        name = self.only_sequence() if sequence is None else sequence
        fields = self._opened.unit(name, layer, kv_head)
        return Unit(sequence=name, layer=layer, kv_head=kv_head, **fields)

    def rows(self, dataset: str, sequence: str | None = None, layer: int = 0) -> np.ndarray:
        """What a trace may hold of a layer as a whole, float32 [n, width].

        >>> trace.rows("residual", layer=1)

        `dataset` is `residual` or `mlp_activation`. Raises DataError if the trace lacks it.
        """
        name = self.only_sequence() if sequence is None else sequence
        return self._opened.rows(dataset, name, layer)

    def mlp_activation(self, sequence: str | None = None, layer: int = 0) -> np.ndarray:
        """What the neurons of the layer's MLP gave after their nonlinearity, float32 [n, width].

        Of a gated MLP, act(gate) * up, it is act(gate). Raises DataError if the trace lacks it.
        """
        return self.rows("mlp_activation", sequence, layer)

    def only_sequence(self) -> str:
        """The name of the only sequence. Raises UsageError if there are several."""
        if len(self.sequences) == 1:
            return self.sequences[0].name
        names = ", ".join(sequence.name for sequence in self.sequences)
        raise UsageError(f"sequence: expected one of {names}")

    def __repr__(self) -> str:
        def counted(number: int, noun: str) -> str:
            return f"{number} {noun}{'' if number == 1 else 's'}"

        recorded = {layer.index for sequence in self.sequences for layer in sequence.layers}
        return (
            f"kvsim.Trace({'in memory' if self.path is None else repr(self.path)}: {self.model}, "
            f"{counted(len(self.sequences), 'sequence')}, {counted(len(recorded), 'layer')}, "
            f"{counted(self.num_query_heads, 'query head')}, "
            f"{counted(self.num_kv_heads, 'KV head')})"
        )

    def _repr_html_(self) -> str:
        """Sequences, layers, heads, type and optional datasets, for a notebook."""
        layers = [layer for sequence in self.sequences for layer in sequence.layers]
        optional = sorted({name for layer in layers for name in layer.recorded})
        facts = {
            "model": self.model,
            "query heads, KV heads": f"{self.num_query_heads}, {self.num_kv_heads}",
            "head_dim, value_dim": f"{self.head_dim}, {self.value_dim}",
            "type": self.dtype or "not declared",
            "recorded in addition": ", ".join(optional) or "nothing",
        }
        left = ' style="text-align:left"'
        head = "".join(
            f"<tr><th{left}>{escape(name)}</th><td{left}>{escape(str(text))}</td></tr>"
            for name, text in facts.items()
        )
        shown = self.sequences[:_MOST_SHOWN]
        rows = "".join(
            f"<tr><td{left}>{escape(each.name)}</td><td>{each.num_tokens:,}</td>"
            f"<td>{each.prompt_length:,}</td><td>{len(each.layers)}</td></tr>"
            for each in shown
        )
        more = len(self.sequences) - len(shown)
        rest = f"<p>and {more:,} more sequences</p>" if more else ""
        names = "<th>tokens</th><th>of the prompt</th><th>layers</th>"
        title = "kvsim.Trace(" + ("in memory" if self.path is None else repr(self.path)) + ")"
        return (
            f"<div><b>{escape(title)}</b><table>{head}</table>"
            f"<table><thead><tr><th{left}>sequence</th>{names}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{rest}</div>"
        )

    def __reduce__(self):
        if self.path is not None:
            return trace_at, (self.path, self.trace_id)
        return trace_of_image, (self._opened.image(),)


def trace_at(path: str, trace_id: str) -> Trace:
    """The trace in a file. Raises DataError if it is another one than `trace_id` says."""
    trace = Trace(path)
    if trace.trace_id != trace_id:
        raise DataError(
            f"{path}: trace_id: expected {trace_id}, found {trace.trace_id}; this process sees "
            f"another file under that path; copy the trace to {socket.gethostname()}, or open it "
            "where all processes see the same files"
        )
    return trace


def trace_of_image(image: bytes) -> Trace:
    from .. import _engine

    return Trace._of(_engine.trace_of_image(image))
