"""A table of head_budgets by groups of layers: what each head keeps at a group's own share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import DataError, UsageError
from ...files.head_tables import RATIOS


@dataclass(frozen=True)
class Group:
    """Layers that follow each other, and the heads whose caches they hold."""

    layers: np.ndarray
    heads: int

    @property
    def name(self) -> str:
        return f"layers-{self.layers[0]}-{self.layers[-1]}"


class Groups:
    """The groups of a table's layers.

    The table says what a group's heads keep at any share of the group: what they keep in the row,
    or between the two rows, where the group keeps that share.
    """

    def __init__(self, table: np.ndarray, number: int):
        kept = 1 - table.astype(np.float64)
        ends = np.where(np.isnan(kept[:1]), np.nan, [[[1.0]]])
        self._kept = np.concatenate([ends, kept, ends * 0])  # [RATIOS + 2, layers, heads]
        counts = (~np.isnan(kept[0])).sum(axis=1)
        layers = np.flatnonzero(counts)
        is_whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not is_whole or not 1 <= number <= len(layers):
            raise UsageError(
                f"groups: expected 1 to {len(layers)}, the layers with a cache, found {number!r}"
            )
        parts = np.array_split(layers, number)
        self.all = [Group(part, int(counts[part].sum())) for part in parts]
        self.heads = int(counts.sum())

    def __iter__(self) -> Iterator[Group]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def kept_by(self, group: Group, share: float) -> np.ndarray:
        """What each head keeps where the group keeps this share: [layers of the group, heads]."""
        of_group = self._kept[:, group.layers]
        means = np.nanmean(of_group, axis=(1, 2))
        place = np.interp(share, means[::-1], np.arange(len(means))[::-1])
        row = min(int(place), len(means) - 2)
        return of_group[row] + (place - row) * (of_group[row + 1] - of_group[row])

    def alone(self, group: Group, share: float) -> np.ndarray:
        """Weights for @file, [layers, heads]: this group keeps a share, the others everything."""
        weights = self._kept[0].copy()
        weights[group.layers] = self.kept_by(group, share)
        return weights

    def shares_in(self, row: np.ndarray) -> np.ndarray:
        """What each group keeps in a row of a table."""
        return np.array([np.nanmean(1 - row[group.layers]) for group in self])

    def table(self, shares: np.ndarray) -> np.ndarray:
        """The table in which groups keep these shares: [RATIOS, groups]."""
        removed = np.full((RATIOS, *self._kept.shape[1:]), np.nan)
        for index, group in enumerate(self):
            for row in range(RATIOS):
                removed[row, group.layers] = 1 - self.kept_by(group, shares[row, index])
        return np.clip(removed, 0, 1).astype(np.float32)


def table_of(table: str | os.PathLike[str] | np.ndarray) -> np.ndarray:
    """The table, or that of a file .npy. Raises for one that head_budgets would not give."""
    name = "table"
    if isinstance(table, (str, os.PathLike)):
        name = os.fspath(table)
        try:
            table = np.load(table, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(
                f"{name}: expected a file .npy of head_budgets, found {error}"
            ) from None
    table = np.asarray(table)
    if table.ndim != 3 or len(table) != RATIOS or table.dtype.kind != "f":
        raise UsageError(
            f"{name}: expected numbers [99, layers, KV heads] of head_budgets, found "
            f"{table.dtype} {list(table.shape)}"
        )
    steps = np.diff(table, axis=0)
    if np.nanmin(table) < 0 or np.nanmax(table) > 1 or np.nanmin(steps) < -1e-6:
        raise UsageError(
            f"{name}: expected shares that each head removes, 0 to 1 and no less at a higher "
            "ratio; make it with kvsim.head_budgets"
        )
    return table
