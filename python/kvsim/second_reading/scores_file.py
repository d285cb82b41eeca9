"""The file of scores that `kvzip:file=PATH` reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..files.paths import exists

VERSION = 1
_VERSION_NAME = "kvsim_scores_version"
_FORMAT = ("v110", "v110")  # of HDF5 1.10, as traces

Scores = Mapping[str, Mapping[int, np.ndarray]]  # by sequence and layer, [KV heads, tokens]


def check_output(path: str | os.PathLike[str]) -> Path:
    """The path, if scores may be written there. Raises UsageError.

    An earlier file of scores is replaced; anything else of that name may be valuable.
    """
    path = Path(path)
    if exists(path) and not path.is_file():
        raise UsageError(f"--output: {path}: there is something else of that name")
    if exists(path) and path.stat().st_size > 0 and not _holds_scores(path):
        raise UsageError(
            f"--output: {path}: there is a file of that name that holds no scores; remove it "
            "first, or name another"
        )
    return path


def image_of(scores: Scores, about: Mapping[str, str | int]) -> bytes:
    """The bytes of the file. Equal scores and attributes are equal bytes.

    /sequences/SEQUENCE/layers/LAYER/kv_heads/HEAD/scores is float32 [tokens], layers and heads by
    decimal index. The root has `about` as attributes, int32 numbers and UTF-8 strings, and
    `kvsim_scores_version`.
    """
    import h5py

    # The name is of no file: without a backing store, the core driver keeps all in memory.
    with h5py.File("scores", "w", driver="core", backing_store=False, libver=_FORMAT) as file:
        for name, value in {_VERSION_NAME: VERSION, **about}.items():
            if isinstance(value, str):
                text = value.encode("utf-8", "replace")
                kind = h5py.string_dtype("utf-8", max(len(text), 1))
                file.attrs.create(name, np.array(text, kind), dtype=kind)
            else:
                file.attrs.create(name, np.int32(value))
        for sequence, layers in scores.items():
            for layer, heads in layers.items():
                for head, values in enumerate(heads):
                    place = f"sequences/{sequence}/layers/{layer}/kv_heads/{head}/scores"
                    file.create_dataset(place, data=values.astype(np.float32), track_times=False)
        file.flush()
        return file.id.get_file_image()


def _holds_scores(path: Path) -> bool:
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:
            return _VERSION_NAME in file.attrs
    except (OSError, RuntimeError):
        return False
