"""The type in which the numbers of a layer are stored: float16 where that is exact enough."""

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _engine
from ..errors import RecordError, RecordWarning
from ..model.masks import Reach
from ..model.shape import Shape
from .spool import SpooledRows

AUTO = "auto"
DTYPES = (AUTO, "float16", "float32")
LARGEST_FLOAT16 = 65504.0
LIMITS = {2: 1e-2, 4: 1e-4}  # of `kvsim verify`, by the bytes of the narrowest type

Layer = Mapping[str, SpooledRows]  # by dataset: query, key, value, output


@dataclass(frozen=True)
class Compared:
    """What was found while the model ran (on_device.py)."""

    types: Mapping[str, str]  # by dataset, of the vectors that were compared
    error: float  # that of worst_error() is at most so much; NaN: unknown


@dataclass(frozen=True)
class Attention:
    """What a layer attends to, with which logits."""

    shape: Shape
    reach: Reach
    sinks: np.ndarray | None  # learned logits [query heads]
    selected: np.ndarray | None = None  # int32 [n, K]: what each step sees alone, -1 behind
    compared: Compared | None = None  # where it was compared while the model ran


def stored_types(
    layer: Layer, asked: str, attention: Attention, place: str, threads: int | None = None
) -> dict[str, str]:
    """The type of each dataset of a layer, float16 or float32.

    `asked` is one of DTYPES: AUTO takes float16 if attention recomputed from it agrees with the
    model's outputs as `kvsim verify` demands, else float32. An output that the model computed in
    half precision is float16 in any case, since `kvsim verify` chooses its limit by this type.

    Raises RecordError if float16 was asked for and does not agree; warns if the model itself
    computed with too few digits.
    """
    is_half = all(rows.itemsize <= 2 for rows in layer.values())
    wanted = asked
    if asked == AUTO:
        fits = all(rows.largest <= LARGEST_FLOAT16 for rows in layer.values())
        wanted = "float16" if fits else "float32"
    types = types_of(layer, wanted)
    _require_fit(layer, types, place)
    found = attention.compared
    if found is not None and found.types == types and found.error <= _limit(types):
        return types
    error = worst_error(layer, types, attention, threads)
    if asked == AUTO and wanted == "float16" and error > _limit(types) and not is_half:
        types = types_of(layer, "float32")
        error = worst_error(layer, types, attention, threads)
    if error <= _limit(types):
        return types
    found = (
        f"{place}: attention recomputed from the trace is {error:.1e} off the model's, more than "
        f"the {_limit(types):g} that kvsim verify allows"
    )
    rounded = any(types[name] == "float16" and rows.itemsize > 2 for name, rows in layer.items())
    if rounded:
        raise RecordError(f"{found}; use --dtype auto or float32")
    warnings.warn(f"{found}; load the model in float32", RecordWarning)
    return types


def types_of_shared(
    layers: Mapping[int, tuple[Layer, Attention]],
    asked: str,
    place: str,
    threads: int | None = None,
) -> dict[int, dict[str, str]]:
    """The same of layers that share the cache of the first one: its keys have one type."""
    owner, _ = next(iter(layers.values()))
    cache = {name: owner[name] for name in ("key", "value")}

    def types(asked: str) -> dict[int, dict[str, str]]:
        return {
            layer: stored_types(
                {**cache, **rows}, asked, attention, f"{place}, layer {layer}", threads
            )
            for layer, (rows, attention) in layers.items()
        }

    found = types(asked)
    is_shared = len({of_layer["key"] for of_layer in found.values()}) == 1
    return found if is_shared else types("float32")


def worst_error(
    layer: Layer, types: Mapping[str, str], attention: Attention, threads: int | None = None
) -> float:
    """The largest error of an output of the layer, as `kvsim verify` has it, in these types.

    `threads`: that compute at a time; by default as many as `default_threads`.
    """
    shape, reach = attention.shape, attention.reach
    size = shape.num_query_heads // shape.num_kv_heads

    def stored(name: str, head: int) -> np.ndarray:
        return layer[name].head(head).astype(types[name]).astype(np.float32)

    def error(kv_head: int) -> float:
        heads = range(kv_head * size, (kv_head + 1) * size)
        query, output = (np.stack([stored(name, h) for h in heads]) for name in ("query", "output"))
        return _engine.output_error(
            query, stored("key", kv_head), stored("value", kv_head), output,
            scale=shape.scale, logit_softcap=shape.logit_softcap or None,
            sliding_window=reach.window, attention_chunk=reach.chunk,
            sink_logit=[] if attention.sinks is None else attention.sinks[heads].tolist(),
            selected=attention.selected,
        )  # fmt: skip

    with ThreadPoolExecutor(threads or _engine.default_threads()) as pool:
        return max(pool.map(error, range(shape.num_kv_heads)))


def types_of(layer: Mapping[str, Any], wanted: str) -> dict[str, str]:
    """The type of each dataset of a layer, spooled or a tensor, where this one is wanted."""
    types = dict.fromkeys(layer, wanted)
    if layer["output"].itemsize == 2:
        types["output"] = "float16"
    return types


def _require_fit(layer: Layer, types: Mapping[str, str], place: str) -> None:
    for name, rows in layer.items():
        if types[name] == "float16" and rows.largest > LARGEST_FLOAT16:
            cure = (
                "load the model in float32" if rows.itemsize == 2 else "use --dtype auto or float32"
            )
            raise RecordError(
                f"{place}, {name}: {rows.largest:g} does not fit into float16; {cure}"
            )


def _limit(types: Mapping[str, str]) -> float:
    return LIMITS[min(np.dtype(kind).itemsize for kind in types.values())]
