"""What a dump holds, once names and shapes are clear, and a layer of it at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from ..trace.names import NAME_FORM, is_name, problem_of
from .heads import numbers_of, parts_of, repeats_of, rope_of
from .layouts import Known, all_sizes, as_heads, asked_layout, decided
from .names import named
from .sources import Dumped, opened


@dataclass(frozen=True)
class Asked:
    """The arguments of import_arrays after `output`."""

    layout: str | Mapping[str, str] | None
    names: Mapping[str, str] | None
    num_query_heads: int | None
    num_kv_heads: int | None
    head_dim: int | None
    repeated: str
    dtype: str | None
    attention_mask: Any
    token_ids: Any
    sequence_names: Sequence[str] | None
    prompt_length: int | Sequence[int]
    scale: float | None
    logit_softcap: float | None
    sliding_window: int | Mapping[int, int] | None
    rope: Mapping[str, object] | None
    rotate: bool
    num_layers: int | None
    model: str
    verify: bool

    def __post_init__(self) -> None:
        if self.repeated not in ("undo", "keep"):
            raise UsageError(f"repeated: expected undo or keep, found {self.repeated}")
        if self.dtype not in (None, "bfloat16"):
            raise UsageError(f"dtype: expected bfloat16 or nothing, found {self.dtype}")
        if self.rotate and self.rope is None:
            raise UsageError("rotate: needs rope, a dict of inv_freq and style")
        if problem := problem_of(self.model):
            raise UsageError(f"model: expected a name, found {problem}")
        for name in ("num_query_heads", "num_kv_heads", "head_dim", "num_layers"):
            number = getattr(self, name)
            if number is not None and (not hasattr(number, "__index__") or number < 1):
                raise UsageError(f"{name}: expected 1 or more, found {number}")
        for name in ("scale", "logit_softcap"):
            number = getattr(self, name)
            if number is not None and not 0 < number < float("inf"):
                raise UsageError(f"{name}: expected more than 0, found {number}")


class Dump:
    """Raises UsageError and DataError for what is not clear, before numbers are read."""

    def __init__(self, source: object, asked: Asked) -> None:
        self.asked = asked
        found = named(opened(source), asked.names)
        self.left_out = found.left_out
        self._layers = dict(sorted(found.layers.items()))
        self.layers = list(self._layers)
        self.num_layers = asked.num_layers or self.layers[-1] + 1
        if self.num_layers <= self.layers[-1]:
            raise UsageError(
                f"num_layers: expected {self.layers[-1] + 1} or more, found {asked.num_layers}"
            )
        mask = _one(found.shared, "attention_mask", asked.attention_mask)
        ids = _one(found.shared, "token_ids", asked.token_ids)
        ids = ids[None] if ids is not None and ids.ndim == 1 else ids
        known = Known(
            asked.num_query_heads, asked.num_kv_heads, asked.head_dim,
            next((each.shape for each in (mask, ids) if each is not None and each.ndim == 2), None),
        )  # fmt: skip
        shapes = {
            layer: {role: each.shape for role, each in of_layer.items()}
            for layer, of_layer in self._layers.items()
        }
        wanted = asked_layout(asked.layout)
        self.has_output = "output" in shapes[self.layers[0]]
        if not self.has_output:
            wanted.pop("output", None)
        self.layout = decided(shapes, wanted, known)
        self.sizes = {layer: all_sizes(each, self.layout, known) for layer, each in shapes.items()}
        query = self.sizes[self.layers[0]]["query"]
        self.parts = parts_of(mask, query.batch, query.tokens, "attention_mask")
        self.has_mask = mask is not None
        self.token_ids = _checked_ids(ids, query.batch, query.tokens)
        self.names = _names(asked.sequence_names, query.batch)
        self.prompts = _prompts(asked.prompt_length, self.parts)
        self.rope = None if asked.rope is None else rope_of(asked.rope)
        self.windows = _windows(asked.sliding_window, self.layers)
        self.times = 1  # how often keys and values were repeated, once a layer was read

    @property
    def kinds(self) -> str:
        """The types of numbers in the dump."""
        of_all = (each.kind for layer in self._layers.values() for each in layer.values())
        return ", ".join(sorted({*of_all}))

    def read(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Each layer with its arrays [batch, heads, tokens, dim], keys and values once."""
        for layer, of_layer in self._layers.items():
            arrays = {
                role: as_heads(
                    numbers_of(each, self.asked.dtype), self.layout[role],
                    self.sizes[layer][role].heads,
                )
                for role, each in of_layer.items()
            }  # fmt: skip
            self._undo_repeats(layer, arrays)
            if self.has_output and of_layer["output"].kind not in ("float32", "float64"):
                # As the recorder stores it: `kvsim verify` chooses its limit by this type.
                with np.errstate(over="ignore"):
                    arrays["output"] = arrays["output"].astype(np.float16)
            yield layer, arrays

    def _undo_repeats(self, layer: int, arrays: dict[str, np.ndarray]) -> None:
        key_heads, query_heads = arrays["key"].shape[1], arrays["query"].shape[1]
        wanted = self.asked.num_kv_heads or key_heads
        if self.asked.repeated == "keep" or key_heads < query_heads:
            if self.asked.num_kv_heads not in (None, key_heads):
                raise UsageError(f"num_kv_heads: expected {key_heads}, found {wanted}")
            return
        if self.asked.num_kv_heads is None:
            times = repeats_of(arrays["key"], arrays["value"], key_heads)
        else:
            times = key_heads // wanted if key_heads % wanted == 0 else 0
            blocks = arrays["key"], arrays["value"]
            if times == 0 or (times > 1 and repeats_of(*blocks, times) != times):
                raise DataError(
                    f"layer {layer}: expected {wanted} KV heads, repeated over {key_heads}; found "
                    "others: the blocks of heads are not the same bit for bit"
                )
        if layer != self.layers[0] and times != self.times:
            raise DataError(
                f"layer {layer}: each KV head stands {times} times in a row, in layer "
                f"{self.layers[0]} {self.times} times; say num_kv_heads, or repeated='keep'"
            )
        self.times = times
        arrays["key"], arrays["value"] = (arrays[role][:, ::times] for role in ("key", "value"))


def _one(shared: Mapping[str, list[Dumped]], role: str, named: Any) -> np.ndarray | None:
    """A mask or token ids, which may stand in the files of all layers."""
    if named is not None:
        return np.asarray(named.detach().cpu() if hasattr(named, "detach") else named)
    first, *others = shared.get(role, [None])
    if first is None:
        return None
    array = np.asarray(first.read())
    for other in others:
        if not np.array_equal(array, other.read()):
            raise DataError(f"{other.place}: differs from {first.place}; expected one {role}")
    if array.dtype.kind not in "biuf" or array.ndim > 2:
        raise DataError(
            f"{first.place}: expected {role} [batch, tokens], found {array.dtype} "
            f"{list(array.shape)}; give {role}="
        )
    return array


def _checked_ids(ids: np.ndarray | None, batch: int, tokens: int) -> np.ndarray | None:
    if ids is None:
        return None
    if ids.shape != (batch, tokens) or ids.dtype.kind not in "iu" or (abs(ids) >= 2**31).any():
        raise DataError(
            f"token_ids: expected whole numbers of 32 bits [{batch}, {tokens}], found {ids.dtype} "
            f"{list(ids.shape)}"
        )
    return ids.astype(np.int32)


def _names(names: Sequence[str] | None, batch: int) -> list[str]:
    if names is None:
        return [f"sequence-{member}" for member in range(batch)]
    if isinstance(names, str) or len({*names}) != batch or len(names) != batch:
        raise UsageError(f"sequence_names: expected {batch} different names, found {names!r}")
    if wrong := [name for name in names if not is_name(name)]:
        raise UsageError(f"sequence_names: expected {NAME_FORM}, found {wrong[0]!r}")
    return list(names)


def _prompts(prompt_length: int | Sequence[int], parts: list[slice]) -> list[int]:
    is_one = hasattr(prompt_length, "__index__")
    prompts = [prompt_length] * len(parts) if is_one else list(prompt_length)  # type: ignore[arg-type]
    lengths = [part.stop - part.start for part in parts]
    fit = len(prompts) == len(lengths) and all(0 <= p <= n for p, n in zip(prompts, lengths))
    if not fit:
        raise UsageError(
            f"prompt_length: expected at most the tokens of each text, {lengths}, found {prompts}"
        )
    return [int(prompt) for prompt in prompts]


def _windows(window: int | Mapping[int, int] | None, layers: list[int]) -> dict[int, int]:
    if window is None:
        return {}
    windows = dict(window) if isinstance(window, Mapping) else dict.fromkeys(layers, window)
    if not {*windows} <= {*layers} or any(int(each) < 1 for each in windows.values()):
        raise UsageError(f"sliding_window: expected 1 or more of layers {layers}, found {window}")
    return windows
