"""The type in which the numbers of a layer are stored: float16 where that is exact enough."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import RecordError, RecordWarning
from ..model.masks import Reach
from ..model.shape import Shape
from .accuracy import LIMITS, worst_error
from .spool import SpooledRows

AUTO = "auto"
DTYPES = (AUTO, "float16", "float32")
LARGEST_FLOAT16 = 65504.0

Layer = Mapping[str, SpooledRows]  # by dataset: query, key, value, output


@dataclass(frozen=True)
class Attention:
    """What a layer attends to, with which logits."""

    shape: Shape
    reach: Reach
    sinks: np.ndarray | None  # learned logits [query heads]


def stored_types(layer: Layer, asked: str, attention: Attention, place: str) -> dict[str, str]:
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
    types = _types(layer, wanted)
    _require_fit(layer, types, place)
    error = worst_error(layer, types, attention)
    if asked == AUTO and wanted == "float16" and error > _limit(types) and not is_half:
        types = _types(layer, "float32")
        error = worst_error(layer, types, attention)
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


def _types(layer: Layer, wanted: str) -> dict[str, str]:
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
