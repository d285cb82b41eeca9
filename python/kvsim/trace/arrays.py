"""Arrays on their way into a trace in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import KvsimWarning, UsageError
from .names import NAME_FORM, is_name, problem_of
from .spans import checked_spans

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .. import _engine

_NAMES = ("query", "key", "value")

Shapes = list[tuple[int, ...]]  # of query, key and value of a layer


def trace_of_arrays(
    layers: Mapping[int, tuple[ArrayLike, ArrayLike, ArrayLike]],
    scale: float | Mapping[int, float] | None,
    prompt_length: int,
    name: str,
    token_ids: ArrayLike | None,
    model: str,
    rope: Mapping[str, object] | Mapping[int, Mapping[str, object]] | None,
    logit_softcap: float | None,
    masks: Mapping[str, int | Mapping[int, int] | None],
    sink_logit: ArrayLike | Mapping[int, ArrayLike] | None,
    kv_from: Mapping[int, int],
    selected: ArrayLike | Mapping[int, ArrayLike] | None,
    num_layers: int | None,
    spans: Iterable[tuple[int, int, str]] | None,
    also: Mapping[str, ArrayLike | Mapping[int, ArrayLike] | None],
    label_seed: int,
) -> _engine.Trace:
    """See Trace.from_arrays."""
    if not layers:
        raise UsageError("from_arrays: expected at least one layer")
    arrays = {
        int(layer): _triple(layer, _NAMES[: 1 if layer in kv_from else 3], triple)
        for layer, triple in layers.items()
    }
    _require_owners(kv_from, arrays)
    shapes = {
        layer: _shapes(layer, [triple[0], *arrays[kv_from.get(layer, layer)][1:]])
        for layer, triple in sorted(arrays.items())
    }
    tokens = _common_tokens(shapes)
    _warn_of_repeated_heads(arrays)
    if not hasattr(prompt_length, "__index__") or not 0 <= prompt_length <= tokens:
        raise UsageError(f"prompt_length: expected 0..{tokens}, found {prompt_length}")
    if not is_name(name):
        raise UsageError(f"name: expected {NAME_FORM}, found {name!r}")
    if problem := problem_of(model):
        raise UsageError(f"model: expected a name, found {problem}")
    ids = [] if token_ids is None else _token_ids(token_ids, tokens)
    first = min(arrays)
    scales = {layer: key[2] ** -0.5 for layer, (_, key, _) in shapes.items()}
    scales |= _by_layer("scale", scale, arrays)
    ropes = {layer: _rope(each) for layer, each in _ropes(rope, arrays).items()}
    is_shared = len(ropes) == len(arrays) and all(each == ropes[first] for each in ropes.values())
    header = {
        "model": model,
        "scale": float(scales[first]),
        "num_layers": max(arrays) + 1 if num_layers is None else num_layers,
        "logit_softcap": logit_softcap,
        "rope": ropes[first] if is_shared else None,
    }
    masked = [_by_layer(what, mask, arrays) for what, mask in masks.items()]
    sinks = _by_layer("sink_logit", sink_logit, arrays)
    sinks = {layer: _sinks(layer, each, shapes[layer][0][0]) for layer, each in sinks.items()}
    chosen = _by_layer("selected", selected, arrays)
    chosen = {layer: _selected(layer, each, tokens) for layer, each in chosen.items()}
    if not hasattr(label_seed, "__index__") or not 0 <= label_seed < 2**31:
        raise UsageError(f"label_seed: expected one in 0..{2**31 - 1}, found {label_seed}")
    from .. import _engine

    others: dict[int, dict[str, np.ndarray]] = {layer: {} for layer in arrays}
    axes = {name: each for name, each, _ in _engine.given_datasets()}
    for dataset, values in also.items():
        if dataset not in axes:
            raise UsageError(f"from_arrays: expected some of {', '.join(axes)}, found {dataset}")
        for layer, array in _other(dataset, axes[dataset], values, arrays, shapes).items():
            others[layer][dataset] = array
    per_layer = [
        (layer, *_float32(triple),
         *(mask.get(layer) for mask in masked), sinks.get(layer), others[layer],
         float(scales[layer]), ropes.get(layer), kv_from.get(layer), chosen.get(layer))
        for layer, triple in sorted(arrays.items())
    ]  # fmt: skip
    parts = [] if spans is None else list(checked_spans(spans, tokens))
    half = all(each.dtype == np.float16 for triple in arrays.values() for each in triple)
    return _engine.trace_of(header, name, prompt_length, ids, per_layer, parts, label_seed, half)


def _by_layer(name: str, value: object, arrays: Mapping[int, list[np.ndarray]]) -> dict[int, Any]:
    """What every layer has, or a dict from layer to that, as such a dict."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return dict.fromkeys(arrays, value)
    if not set(value) <= set(arrays):
        raise UsageError(f"{name}: expected layers of {sorted(arrays)}, found {[*value]}")
    return dict(value)


def _sinks(layer: int, values: ArrayLike, heads: int) -> list[float]:
    sinks = np.asarray(_on_host(values))
    if sinks.shape != (heads,) or sinks.dtype.kind not in "fiu":
        raise UsageError(
            f"sink_logit: layer {layer}: expected {heads} numbers, one per query head, found "
            f"{sinks.dtype} {list(sinks.shape)}"
        )
    return sinks.astype(np.float32).tolist()


def _selected(layer: int, values: ArrayLike, tokens: int) -> np.ndarray:
    rows = np.asarray(_on_host(values))
    most = np.iinfo(np.int32).max
    is_matrix = rows.ndim == 2 and len(rows) == tokens and rows.size > 0
    if not is_matrix or rows.dtype.kind not in "iu" or (np.abs(rows) > most).any():
        raise UsageError(
            f"selected: layer {layer}: expected whole numbers of 32 bits [{tokens}, K], found "
            f"{rows.dtype} {list(rows.shape)}"
        )
    return np.ascontiguousarray(rows, np.int32)


def _other(
    name: str,
    axes: tuple[str, ...],
    data: ArrayLike | Mapping[int, ArrayLike] | None,
    arrays: Mapping[int, list[np.ndarray]],
    shapes: dict[int, Shapes],
) -> dict[int, np.ndarray]:
    """Per layer one of the other datasets that a trace may hold."""
    if data is None:
        return {}
    if not isinstance(data, Mapping) and len(arrays) > 1:
        raise UsageError(f"{name}: expected a dict from layer to array, as there are several")
    by_layer = data if isinstance(data, Mapping) else {next(iter(arrays)): data}
    if not set(by_layer) <= set(arrays):
        raise UsageError(f"{name}: expected layers of {sorted(arrays)}, found {[*by_layer]}")
    found = {}
    for layer, values in by_layer.items():
        (heads, *_), _, (_, tokens, dim) = shapes[layer]
        sizes = {
            "num_query_heads": heads,
            "n": tokens,
            "value_dim": dim,
            "num_query_heads * value_dim": heads * dim,
        }
        wanted = [sizes.get(axis) for axis in axes]
        array = np.asarray(_on_host(values))
        fits = array.ndim == len(wanted) and all(
            size > 0 if expected is None else size == expected
            for size, expected in zip(array.shape, wanted)
        )
        if not fits or array.dtype.kind not in "fiu":
            shape = ", ".join("any" if size is None else str(size) for size in wanted)
            raise UsageError(
                f"{name}: layer {layer}: expected numbers [{shape}], found {array.dtype} "
                f"{list(array.shape)}"
            )
        found[int(layer)] = np.ascontiguousarray(array, np.float32)
    return found


def _token_ids(token_ids: ArrayLike, tokens: int) -> list[int]:
    ids = np.asarray(_on_host(token_ids))
    most = np.iinfo(np.int32).max
    if ids.shape != (tokens,) or ids.dtype.kind not in "iu" or (np.abs(ids) > most).any():
        raise UsageError(
            f"token_ids: expected {tokens} whole numbers of 32 bits, found {ids.dtype} "
            f"{list(ids.shape)}"
        )
    return ids.tolist()


def _on_host(values: object) -> object:
    """A tensor as what numpy can read: bfloat16 has no type there."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def _float32(triple: list[np.ndarray]) -> tuple[np.ndarray | None, ...]:
    """Query, key and value; None: the layer has none."""
    there = [np.ascontiguousarray(each, np.float32) for each in triple]
    return (*there, *([None] * (3 - len(there))))


def _require_owners(kv_from: Mapping[int, int], arrays: Mapping[int, list[np.ndarray]]) -> None:
    for layer, owner in kv_from.items():
        if layer not in arrays or owner not in arrays or owner in kv_from or owner >= layer:
            raise UsageError(
                "kv_from: expected for a layer an earlier one with keys and values of its own, "
                f"found {layer}: {owner}"
            )


def _triple(
    layer: int, names: tuple[str, ...], triple: tuple[ArrayLike | None, ...]
) -> list[np.ndarray]:
    """The arrays of a layer, of which those that it has stand first."""
    if len(triple) != 3 or [each is not None for each in triple] != [n in names for n in _NAMES]:
        raise UsageError(
            f"from_arrays: layer {layer}: expected query, key and value, or with kv_from a query "
            "and None twice"
        )
    arrays = [np.asarray(_on_host(each)) for each in triple if each is not None]
    for name, array in zip(names, arrays):
        if array.ndim != 3 or 0 in array.shape or array.dtype.kind not in "fiu":
            raise UsageError(
                f"{name}: expected numbers [heads, tokens, dimensions], found {array.dtype} "
                f"{list(array.shape)}"
            )
    return arrays


def _shapes(layer: int, triple: list[np.ndarray]) -> Shapes:
    """The shapes of query, key and value of a layer."""
    shapes = [array.shape for array in triple]
    (query_heads, *of_query), (kv_heads, *of_key), (value_heads, tokens, _) = shapes
    if layer < 0:
        raise UsageError(f"from_arrays: expected layers from 0 on, found {layer}")
    if of_query != of_key or value_heads != kv_heads or tokens != of_key[0]:
        raise UsageError(
            f"from_arrays: layer {layer}: expected query [Hq, n, d], key [Hkv, n, d] and value "
            "[Hkv, n, dv], found " + ", ".join(str(list(shape)) for shape in shapes)
        )
    if query_heads % kv_heads != 0:
        raise UsageError(
            f"query: layer {layer}: expected a multiple of {kv_heads} heads, as there are KV "
            f"heads, found {query_heads}"
        )
    return shapes


def _common_tokens(shapes: dict[int, Shapes]) -> int:
    """The tokens of the text, which all layers have."""
    first, *others = ((layer, key[1]) for layer, (_, key, _) in shapes.items())
    for layer, tokens in others:
        if tokens != first[1]:
            raise UsageError(
                f"from_arrays: layer {layer}: expected {first[1]} tokens as in layer {first[0]}, "
                f"found {tokens}"
            )
    return first[1]


def _ropes(
    rope: Mapping[str, object] | Mapping[int, Mapping[str, object]] | None,
    arrays: Mapping[int, list[np.ndarray]],
) -> dict[int, Any]:
    """The rotation of each layer: one of all layers, or a dict from layer to that."""
    if rope is None or "inv_freq" in rope or not all(hasattr(key, "__index__") for key in rope):
        return {} if rope is None else dict.fromkeys(arrays, rope)
    return _by_layer("rope", rope, arrays)


def _warn_of_repeated_heads(arrays: dict[int, list[np.ndarray]]) -> None:
    """Of heads that were repeated over their query heads, every copy would be a unit."""
    for layer, (_, *cached) in arrays.items():
        for head in range(len(cached[0]) - 1 if cached else 0):
            if all(np.array_equal(each[head], each[head + 1]) for each in cached):
                warnings.warn(
                    f"layer {layer}: KV heads {head} and {head + 1} have the same keys and values; "
                    "if they were repeated over query heads, give each once: key[::group], "
                    "value[::group]",
                    KvsimWarning,
                    stacklevel=4,
                )
                return


def _rope(rope: Mapping[str, object]) -> dict[str, object]:
    if "inv_freq" not in rope or rope.get("style", "half") not in ("half", "interleaved"):
        raise UsageError('rope: expected inv_freq and a style of "half" or "interleaved"')
    frequencies = np.asarray(_on_host(rope["inv_freq"]), np.float64)
    return {
        "inv_freq": [float(each) for each in frequencies.ravel()],
        "style": str(rope.get("style", "half")),
        "attention_factor": float(rope.get("attention_factor", 1)),
    }
