"""Which tokens a press has kept, from the keys and values that it returns."""

from __future__ import annotations

from typing import Any

import numpy as np


class ChangedRows(Exception):
    """A press has changed what it keeps, or what it keeps cannot be identified."""


def kept_rows(keys: Any, values: Any, left_keys: Any, left_values: Any) -> list[np.ndarray]:
    """The tokens of each KV head, int64, in the order of the rows that are left.

    All are tensors [1, heads, rows, dim]; `keys` and `values` are those before. Raises ChangedRows
    if a row that is left is none of them, or if two tokens have equal keys.
    """
    return [
        _of_head(*(each[0, head] for each in (keys, values, left_keys, left_values)))
        for head in range(keys.shape[1])
    ]


def _of_head(keys: Any, values: Any, left_keys: Any, left_values: Any) -> np.ndarray:
    tokens = {row: token for token, row in enumerate(_rows(keys))}
    if len(tokens) < len(keys):
        raise ChangedRows("two tokens have equal keys, so that what it keeps cannot be identified")
    try:
        kept = np.array([tokens[row] for row in _rows(left_keys)], np.int64)
    except KeyError:
        raise ChangedRows("it changes keys, and a policy can only keep or drop them") from None
    before = _rows(values)
    if [before[token] for token in kept] != _rows(left_values):
        raise ChangedRows("it changes values, and a policy can only keep or drop them")
    return kept


def _rows(vectors: Any) -> list[bytes]:
    return [row.tobytes() for row in vectors.detach().float().cpu().numpy()]
