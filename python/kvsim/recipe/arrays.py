"""The array of a recipe's split, as LUKVPress of kvpress reads it."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np

from ..errors import DataError, UsageError
from ..files.head_tables import RATIOS, npy_of
from .file import Recipe
from .parts import parts_of


def lukv_array(recipe: Recipe) -> bytes:
    """A file .npy [99, layers, KV heads]: the share of its tokens that each head removes at
    compression ratios of 1% to 99%. Weights of heads become one.

    Raises UsageError for a recipe whose split is no such file, DataError for another file than
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
    table = _table(data)
    if table.ndim == 3 and len(table) == RATIOS:
        return data
    if table.ndim == 2:
        return npy_of(removed_shares(table))
    found = " x ".join(map(str, table.shape)) if table.size else "another form"
    raise UsageError(
        f"recipe {recipe.path}: it has no form for LU-KV: {path}: expected an array of {RATIOS} x "
        f"layers x KV heads, or of weights, layers x KV heads, in a file .npy, found {found}"
    )


def removed_shares(weights: np.ndarray) -> np.ndarray:
    """What heads of these weights [layers, KV heads] remove at each ratio: [99, layers, KV heads].

    What they keep is in proportion to the weights, as the engine splits a budget by them. Where a
    head keeps its whole prompt, the others share what is left; the engine gives it a budget beyond
    the prompt. NaN: no head.
    """
    heads = ~np.isnan(weights)
    removed = np.full((RATIOS, *weights.shape), np.nan, np.float32)
    for row in range(RATIOS):
        removed[row, heads] = 1 - _kept(weights[heads].astype(float), 1 - (row + 1) / 100)
    return removed


def _kept(weights: np.ndarray, mean: float) -> np.ndarray:
    """Shares of at most 1, in proportion to the weights where they are below, with this mean."""
    is_full = np.zeros(len(weights), bool)
    while True:
        left = mean * len(weights) - is_full.sum()
        weight = weights[~is_full].sum()
        even = np.full(len(weights), left / max(1, (~is_full).sum()))
        kept = np.where(is_full, 1.0, left * weights / weight if weight > 0 else even)
        over = (kept >= 1) & ~is_full
        if not over.any():
            return kept
        is_full |= over


def _table(data: bytes) -> np.ndarray:
    """The array in a file .npy; an empty one of another file."""
    try:
        table = np.load(BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return np.empty(0)
    return table if isinstance(table, np.ndarray) else np.empty(0)
