"""The file of scores that `kvzip:file=PATH` reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..files.outputs import replaceable

if TYPE_CHECKING:
    import h5py

VERSION = 1
_VERSION_NAME = "kvsim_scores_version"
_FORMAT = ("v110", "v110")  # of HDF5 1.10, as traces

Scores = Mapping[str, Mapping[int, np.ndarray]]  # by sequence and layer, [KV heads, tokens]


def check_output(path: str | os.PathLike[str]) -> Path:
    """The path, if scores may be written there, which replace earlier ones. Raises UsageError."""
    return replaceable(path, "--output", "scores", _holds_scores)


def image_of(scores: Scores, text_ids: Mapping[str, str], about: Mapping[str, str | int]) -> bytes:
    """The bytes of the file. Equal scores and attributes are equal bytes.

    /sequences/SEQUENCE/layers/LAYER/kv_heads/HEAD/scores is float32 [tokens], layers and heads by
    decimal index. The root has `about` as attributes, int32 numbers and UTF-8 strings, and
    `kvsim_scores_version`; each sequence has its `text_id`, UTF-8.
    """
    import h5py

    # The name is of no file: without a backing store, the core driver keeps all in memory.
    with h5py.File("scores", "w", driver="core", backing_store=False, libver=_FORMAT) as file:
        for name, value in {_VERSION_NAME: VERSION, **about}.items():
            if isinstance(value, str):
                _set_text(file, name, value)
            else:
                file.attrs.create(name, np.int32(value))
        for sequence, layers in scores.items():
            for layer, heads in layers.items():
                for head, values in enumerate(heads):
                    place = f"sequences/{sequence}/layers/{layer}/kv_heads/{head}/scores"
                    file.create_dataset(place, data=values.astype(np.float32), track_times=False)
            _set_text(file[f"sequences/{sequence}"], "text_id", text_ids[sequence])
        file.flush()
        return file.id.get_file_image()


def _set_text(group: h5py.Group, name: str, value: str) -> None:
    import h5py

    text = value.encode("utf-8", "replace")
    kind = h5py.string_dtype("utf-8", max(len(text), 1))
    group.attrs.create(name, np.array(text, kind), dtype=kind)


def _holds_scores(path: Path) -> bool:
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:
            return _VERSION_NAME in file.attrs
    except (OSError, RuntimeError):
        return False
