"""Brings a dump to a trace, one layer after the other."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import KvsimWarning
from ..trace import Trace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def import_arrays(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping,
    output: str | os.PathLike[str],
    *,
    layout: str | Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    num_query_heads: int | None = None,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    repeated: str = "undo",
    dtype: str | None = None,
    attention_mask: ArrayLike | None = None,
    token_ids: ArrayLike | None = None,
    sequence_names: Sequence[str] | None = None,
    prompt_length: int | Sequence[int] = 0,
    scale: float | None = None,
    logit_softcap: float | None = None,
    sliding_window: int | Mapping[int, int] | None = None,
    rope: Mapping[str, object] | None = None,
    rotate: bool = False,
    num_layers: int | None = None,
    model: str = "imported",
    verify: bool = True,
    notes: Callable[[str], object] | None = None,
) -> Trace:
    """Writes a trace of queries, keys and values that were dumped from a model.

    Nothing is guessed: what names and shapes leave open is an error that names the argument which
    decides it, and `notes` says what was decided. Where the dump has outputs, attention is computed
    again and compared with them before the trace gets its name.

    Parameters
    ----------
    source : path, sequence of paths, or dict
        A file .npz, .safetensors or .pt, a folder of such files, or several files, as one per
        layer; or a dict from name to array, from layer to such a dict, or from layer to (query,
        key, value) or (query, key, value, output).
    output : path
        The trace. An existing trace is replaced, any other file is not.
    layout : str or dict, optional
        The axes of queries, keys and values: ``bhtd``, ``bthd``, ``htd``, ``thd``, ``bt(hd)`` or
        ``t(hd)`` of batch, heads, tokens and dimensions; or a dict of ``query``, ``key``, ``value``
        and ``output`` to that. None: the one that fits all shapes.
    names : dict of str to str, optional
        The names of arrays: from ``query``, ``key``, ``value``, ``output``, ``attention_mask`` and
        ``token_ids`` to a name in which ``{layer}`` stands for the number of the layer.
    num_query_heads, num_kv_heads, head_dim : int, optional
        Of the model, to decide between layouts; flat projections need `num_query_heads`.
    repeated : {"undo", "keep"}
        Whether keys and values that were repeated over query heads, bit for bit, are stored once.
    dtype : {"bfloat16"}, optional
        What numbers of 16 bits without a type are, as .npz files have them.
    attention_mask : array_like, shape (batch, tokens), optional
        1 for tokens, 0 for padding before or after them; in place of that in the dump.
    token_ids : array_like, int, shape (batch, tokens) or (tokens,), optional
        In place of those in the dump.
    sequence_names : sequence of str, optional
        Of the members of the batch; None: ``sequence-0``, ``sequence-1`` ...
    prompt_length : int or sequence of int, tokens
        Of each member without its padding; 0: none.
    scale : float, optional
        Of logits, scale * <query, key>; None: 1 / sqrt(head_dim).
    logit_softcap : float, optional
        Logits become cap * tanh(logit / cap).
    sliding_window : int or dict of int to int, optional, tokens
        Of every layer, or a dict from layer to its window.
    rope : dict, optional
        How keys are rotated: ``inv_freq``, ``style`` (``half`` or ``interleaved``) and
        ``attention_factor``. It is stored in the trace.
    rotate : bool
        Whether queries and keys were dumped before rotation, and are rotated by `rope` here.
    num_layers : int, optional
        Of the model; None: the highest layer + 1.
    model : str
        Its name.
    verify : bool
        Whether attention is compared with the outputs.
    notes : callable, optional
        Takes each note, one line; None: prints it on standard error.

    Returns
    -------
    Trace
        The new trace, open. Its `recorder` says which layouts were found.

    Raises
    ------
    UsageError
        If arrays or axes are unclear or contradict each other, or an argument is none.
    DataError
        If a file is damaged, a number is not finite, or attention differs from the outputs.
    KvsimError
        If the trace cannot be written. No file is left then.

    Warns
    -----
    KvsimWarning
        For arrays that are left out, as their names say nothing.

    Examples
    --------
    >>> trace = kvsim.import_arrays("dump.safetensors", "trace.h5")
    >>> trace = kvsim.import_arrays({0: (q, k, v)}, "trace.h5", layout="bhtd")
    """
    from .dump import Asked, Dump
    from .written import write

    asked = Asked(
        layout, names, num_query_heads, num_kv_heads, head_dim, repeated, dtype, attention_mask,
        token_ids, sequence_names, prompt_length, scale, logit_softcap, sliding_window, rope,
        rotate, num_layers, model, verify,
    )  # fmt: skip
    dump = Dump(source, asked)
    if dump.left_out:
        warnings.warn(
            f"left out, as their names say nothing: {', '.join(dump.left_out)}", KvsimWarning,
            stacklevel=2,
        )  # fmt: skip
    for note in write(dump, output):
        (notes or _say)(note)
    return Trace(output)


def _say(note: str) -> None:
    print(f"kvsim: {note}", file=sys.stderr)
