"""`Trace.from_arrays`: what it takes; `arrays.py` checks it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ..errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Trace = TypeVar("Trace")  # that of trace.py, which imports this module


def from_arrays(
    cls: type[Trace],
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

    Parameters
    ----------
    query : array_like, shape (num_query_heads, n, head_dim), or dict
        After positional rotation, before scaling; or a dict from layer to (query, key, value),
        all of the same n, in place of all three.
    key : array_like, shape (num_kv_heads, n, head_dim), optional
        After positional rotation. num_query_heads is a multiple of num_kv_heads.
    value : array_like, shape (num_kv_heads, n, value_dim), optional
        Values.
    scale : float or dict of int to float, optional
        A logit is scale * <query, key>; or a dict from layer to that. None: 1 / sqrt(head_dim).
    prompt_length : int, tokens, default 0
        Of the n tokens, the prompt; 0: none.
    name : str, default "sequence"
        Of the text.
    token_ids : array_like, int, shape (n,), optional
        Tokens of the text.
    model : str, default "arrays"
        The model's name.
    rope : dict, optional
        Has inv_freq [rotary dimensions / 2], style ("half" or "interleaved") and
        attention_factor, for what has to undo the rotation; or a dict from layer to that.
    logit_softcap : float, optional
        Logits become cap * tanh(logit / cap).
    sliding_window : int or dict of int to int, tokens, optional
        Of every layer, or a dict from layer to its window.
    attention_chunk : int or dict of int to int, tokens, optional
        Tokens of a chunk, outside of which nothing is visible; likewise.
    sink_logit : array_like, shape (num_query_heads,), or dict, optional
        A learned logit per query head that takes attention and gives no value, of every layer,
        or a dict from layer to that.
    kv_from : dict of int to int, optional
        For layers that read the keys and values of another layer, a dict from layer to that;
        they have None in place of key and value, and their queries are in its units.
    selected : array_like, int, shape (n, K), or dict, optional
        Tokens that the model itself selected at each step, which sees no others, of every
        layer, or a dict from layer to that: ascending, -1 fills the rest.
    num_layers : int, optional
        Of the model. None: the highest layer here + 1.
    spans : iterable of (int, int, str), optional
        Labelled parts of the text, (first token, token after the last, label) each.
    label_seed : int, default 0
        Of the draws for output_score_grad.
    **also : array_like or dict
        What else a trace may hold of a layer (traces/README.md), an array or a dict from layer
        to that: output_projection [num_query_heads * value_dim, hidden], residual [n, hidden],
        output_score_grad [samples, num_query_heads, n, value_dim], mlp_activation [n, width]
        ...

    Returns
    -------
    Trace
        Its `trace_id` is the one that the same numbers would have in a file.

    Raises
    ------
    UsageError
        For shapes that do not fit.
    DataError
        For numbers that are not finite.

    Notes
    -----
    Arrays are numpy arrays, tensors, or what numpy makes arrays of. They are copied. If
    queries, keys and values are all float16, so is the trace; else all become float32, from
    float64 by rounding.

    Examples
    --------
    >>> trace = kvsim.Trace.from_arrays(query, key, value)
    >>> trace = kvsim.Trace.from_arrays({0: (q0, k0, v0), 5: (q5, k5, v5)}, prompt_length=512)
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
