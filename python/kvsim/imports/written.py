"""Writes a dump as a trace, and says what was decided."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np

from ..errors import DataError
from ..record.trace_file import TraceFile
from .dump import Dump
from .heads import require_finite, rotated
from .proof import Logits, prove


class _Rows:
    """Vectors [heads, n, dim] as TraceFile.write_heads() reads them."""

    def __init__(self, heads: np.ndarray) -> None:
        self.array = heads
        self.heads, self.rows, self.dim = heads.shape

    def part(self, head: int, first: int, end: int, kind: type | str = np.float32) -> np.ndarray:
        return np.ascontiguousarray(self.array[head, first:end], kind)


def write(dump: Dump, output: str | os.PathLike[str]) -> list[str]:
    """Writes all of it or nothing. Returns notes. Raises DataError, KvsimError."""
    asked, first, types = dump.asked, dump.sizes[dump.layers[0]], set()
    scale = first["query"].dim ** -0.5 if asked.scale is None else asked.scale
    worst, kv_heads = 0.0, 0
    with TraceFile(Path(output)) as file:
        for layer, arrays in dump.read():
            sizes = [
                arrays[role].shape[i]
                for role, i in (("query", 1), ("key", 1), ("key", 3), ("value", 3))
            ]
            if layer == dump.layers[0]:
                header = sizes
            elif sizes != header:
                raise DataError(
                    f"layer {layer}: expected query heads, KV heads, head_dim and value_dim "
                    f"{header} as in layer {dump.layers[0]}, found {sizes}; import its layers alone"
                )
            kv_heads = sizes[1]
            logits = Logits(scale, asked.logit_softcap, dump.windows.get(layer))
            for member, name in enumerate(dump.names):
                place = f"layer {layer}, {name}"
                stored = _of_text(dump, arrays, member, place)
                if dump.has_output and asked.verify:
                    worst = max(worst, prove(stored, logits, place))
                _write_layer(
                    file, f"sequences/{name}/layers/{layer}", stored, dump.windows.get(layer)
                )
                types |= {str(each.dtype) for each in stored.values()}
        _describe(file, dump, header, scale, "mixed" if len(types) > 1 else types.pop())
        file.commit()
    return _notes(dump, scale, worst, kv_heads)


def _of_text(
    dump: Dump, arrays: dict[str, np.ndarray], member: int, place: str
) -> dict[str, np.ndarray]:
    """What the trace holds of one text and layer: without padding, finite, rotated."""
    stored = {}
    for role, each in arrays.items():
        heads = each[member][:, dump.parts[member]]
        require_finite(heads, f"{place}, {role}")
        if dump.asked.rotate and dump.rope is not None and role in ("query", "key"):
            heads = rotated(heads, dump.rope)
        stored[role] = heads
    return stored


def _write_layer(
    file: TraceFile, path: str, stored: dict[str, np.ndarray], window: int | None
) -> None:
    group: h5py.Group = file.h5.require_group(path)
    for role, heads in stored.items():
        file.write_heads(group, role, _Rows(heads), str(heads.dtype))  # type: ignore[arg-type]
    if window is not None:
        file.write_attributes(path, {"sliding_window": int(window)})


def _describe(file: TraceFile, dump: Dump, header: list[int], scale: float, dtype: str) -> None:
    sizes = dict(zip(("num_query_heads", "num_kv_heads", "head_dim", "value_dim"), header))
    softcap = dump.asked.logit_softcap
    file.write_attributes(
        "/",
        {
            "kvtrace_version": 2, "model": dump.asked.model, "num_layers": dump.num_layers, **sizes,
            "scale": scale, "dtype": dtype, "recorder": f"kvsim.import_arrays ({_decided(dump)})",
            **({} if softcap is None else {"logit_softcap": float(softcap)}),
        },
    )  # fmt: skip
    if dump.rope is not None:
        angles, style, factor = dump.rope
        file.write_list("/rope/inv_freq", angles)
        file.write_attributes("/rope", {"style": style, "attention_factor": factor})
    for member, (name, part) in enumerate(zip(dump.names, dump.parts)):
        counts = {"num_tokens": part.stop - part.start, "prompt_length": dump.prompts[member]}
        file.write_attributes(f"/sequences/{name}", counts)
        if dump.token_ids is not None:
            file.write_list(f"/sequences/{name}/token_ids", dump.token_ids[member, part])


def _decided(dump: Dump) -> str:
    layouts = ", ".join(f"{role} {layout}" for role, layout in dump.layout.items())
    turned = ", rotated here" if dump.asked.rotate else ""
    repeats = f", each KV head stood {dump.times} times" if dump.times > 1 else ""
    return layouts + repeats + turned


def _notes(dump: Dump, scale: float, worst: float, kv_heads: int) -> list[str]:
    query = dump.sizes[dump.layers[0]]["query"]
    by_default = " (1 / sqrt(head_dim))" if dump.asked.scale is None else ""
    notes = [
        f"layers: {len(dump.layers)}, of {query.heads} query heads and {kv_heads} KV heads, "
        f"texts: {len(dump.names)}; {_decided(dump)}; numbers {dump.kinds}; scale {scale:g}"
        f"{by_default}"
    ]
    if len(dump.names) > 1 and not dump.has_mask:
        notes.append("no mask of padding: every token of every member of the batch counts")
    if not dump.asked.rotate:
        notes.append("keys are taken as rotated; rotate and rope turn those dumped before rotation")
    if not dump.has_output:
        notes.append("no outputs: nothing proves scale, rotation and layout")
    elif not dump.asked.verify:
        notes.append("the outputs were not compared")
    else:
        notes.append(f"attention agrees with the outputs, worst error {worst:.1e}")
    return notes
