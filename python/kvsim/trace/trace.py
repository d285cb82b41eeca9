"""Traces: files of queries, keys and values, or arrays in memory."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..errors import DataError, UsageError
from .contents import Layer, Sequence
from .from_arrays import from_arrays
from .notebook import html_of
from .spans import Span
from .unit import Unit

if TYPE_CHECKING:
    import numpy as np

    from .. import _engine


class Trace:
    """Queries, keys and values of one model on some texts, open for reading.

    Opening checks everything but the recorded numbers, which are checked when they are read.

    Parameters
    ----------
    path : path
        A trace (HDF5); see traces/README.md.

    Attributes
    ----------
    sequences : tuple of Sequence
        The recorded texts, by name.
    model : str
        The model's name.
    num_layers : int
        Layers of the model, recorded or not.
    num_query_heads, num_kv_heads : int
        Heads of a layer.
    head_dim, value_dim : int
        Dimensions of queries and keys, and of values.
    scale : float
        A logit is scale * <query, key>.
    logit_softcap : float or None
        Logits become cap * tanh(logit / cap).
    recorder : str
        What wrote the trace.
    dtype : {"float16", "float32", "mixed", ""}
        The type of queries, keys and values.
    rope : dict or None
        How keys were rotated: inv_freq, style and attention_factor.

    Raises
    ------
    DataError
        For a file that is no sound trace, with the file, the dataset, what was expected and what
        was found; so do the methods that read.

    Notes
    -----
    The attributes are those of the file. A layer of a sequence has its own of num_query_heads to
    rope as `shape`.

    Threads may share a trace. A pickled trace is its path, or its bytes if it is in memory; another
    file under that path is a DataError.

    Examples
    --------
    >>> trace = kvsim.Trace("trace.h5")
    >>> trace.sequences[0].num_tokens
    >>> trace.unit("text", layer=1, kv_head=2).key  # [n, head_dim]
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

    from_arrays = classmethod(from_arrays)

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
        """Reads one KV head with its query heads.

        Parameters
        ----------
        sequence : str, optional
            The name of the text; may be left out if there is only one.
        layer : int, default 0
            The layer.
        kv_head : int, default 0
            The KV head of the layer.

        Returns
        -------
        Unit
            Arrays of the unit, read-only.

        Raises
        ------
        DataError
            If the trace lacks the unit, or its numbers are not sound.
        UsageError
            If `sequence` is left out and there are several.

        Examples
        --------
        >>> trace.unit("text", layer=1, kv_head=2).value
        """
        name = self.only_sequence() if sequence is None else sequence
        fields = self._opened.unit(name, layer, kv_head)
        return Unit(sequence=name, layer=layer, kv_head=kv_head, **fields)

    def rows(self, dataset: str, sequence: str | None = None, layer: int = 0) -> np.ndarray:
        """What a trace may hold of a layer as a whole.

        Parameters
        ----------
        dataset : {"residual", "mlp_activation"}
            Which dataset.
        sequence : str, optional
            As for `unit`.
        layer : int, default 0
            The layer.

        Returns
        -------
        ndarray, float32, shape (n, width)
            A row per token.

        Raises
        ------
        DataError
            If the trace lacks it.
        UsageError
            If `sequence` is left out and there are several.

        Examples
        --------
        >>> trace.rows("residual", layer=1)
        """
        name = self.only_sequence() if sequence is None else sequence
        return self._opened.rows(dataset, name, layer)

    def mlp_activation(self, sequence: str | None = None, layer: int = 0) -> np.ndarray:
        """What the neurons of the layer's MLP gave after their nonlinearity.

        Of a gated MLP, act(gate) * up, it is act(gate).

        Parameters
        ----------
        sequence : str, optional
            As for `unit`.
        layer : int, default 0
            The layer.

        Returns
        -------
        ndarray, float32, shape (n, width)
            A row per token.

        Raises
        ------
        DataError
            If the trace lacks it.
        UsageError
            If `sequence` is left out and there are several.
        """
        return self.rows("mlp_activation", sequence, layer)

    def only_sequence(self) -> str:
        """The name of the only sequence.

        Returns
        -------
        str
            The name.

        Raises
        ------
        UsageError
            If there are several.
        """
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
        return html_of(self)

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
