"""The array of a recipe's split, as LUKVPress of kvpress reads it."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np

from ..errors import DataError, UsageError
from .file import Recipe
from .parts import parts_of

_RATIOS = 99


def lukv_array(recipe: Recipe) -> bytes:
    """A file .npy [99, layers, KV heads]: the share of its tokens that each head removes at
    compression ratios of 1% to 99%.

    Raises UsageError for a recipe whose split is not such a file, DataError for another file than
    the recipe was found with.
    """
    split = parts_of(recipe.policy).split
    if split is None or split.name != "file":
        found = "no split" if split is None else f"@{split.name}"
        raise UsageError(
            f"recipe {recipe.path}: it has no form for LU-KV, whose array is that of a split "
            f"@file:PATH, found {found}; kvsim.head_budgets makes one"
        )
    path = Path(split.parameters["file"])
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    digest = hashlib.sha256(data).hexdigest()
    if split.parameters["sha256"] not in ("", digest):
        raise DataError(
            f"{path}: it has changed since the recipe {recipe.path} was written; expected SHA-256 "
            f"{split.parameters['sha256']}, found {digest}"
        )
    shape = _shape(data)
    if len(shape) != 3 or shape[0] != _RATIOS:
        found = " x ".join(map(str, shape)) if shape else "another form"
        raise UsageError(
            f"recipe {recipe.path}: it has no form for LU-KV: {path}: expected an array of "
            f"{_RATIOS} x layers x KV heads in a file .npy, found {found}"
        )
    return data


def _shape(data: bytes) -> tuple[int, ...]:
    """Of the array in a file .npy; empty of another file."""
    try:
        return np.load(BytesIO(data), allow_pickle=False).shape
    except (ValueError, EOFError, OSError):
        return ()
