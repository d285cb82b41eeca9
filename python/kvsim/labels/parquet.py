"""Labels as a table: a Parquet file with a row per unit, token and budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import KvsimError
from .units import Labelling, UnitLabels

if TYPE_CHECKING:
    import pyarrow


def _pyarrow():
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise KvsimError(
            f"a .parquet file needs pyarrow ({error}): pip install pyarrow, or name an .npz file"
        ) from error
    return pyarrow


class ParquetFile:
    """A row group per unit, ordered by budget as asked for, then by token.

    Without budgets there is a row per unit and token, in which budget, budget_request,
    optimal_evicted_after and slot_price are NULL.
    """

    def __init__(self, path: Path, labelling: Labelling) -> None:
        pa = self._pa = _pyarrow()
        about = {
            "kvsim.block": str(labelling.block),
            "kvsim.mode": labelling.mode,
            "kvsim.trace_id": labelling.trace.trace_id,
        }
        self._schema = pa.schema(
            {
                "sequence": pa.string(),
                "layer": pa.int32(),
                "kv_head": pa.int32(),
                "token": pa.int32(),
                "budget": pa.int32(),
                "budget_request": pa.string(),
                "future_attention": pa.float64(),
                # Offsets of 64 bits: tokens times blocks may exceed 2^31.
                "future_attention_blocks": pa.large_list(pa.float64()),
                "optimal_evicted_after": pa.int32(),
                "next_access": pa.int32(),
                "slot_price": pa.float64(),
            },
            metadata=about,
        )
        self._writer = pa.parquet.ParquetWriter(path, self._schema)

    def add(self, unit: UnitLabels) -> None:
        rows = [self._rows(unit, index) for index in range(max(1, len(unit.budgets)))]
        self._writer.write_table(self._pa.concat_tables(rows).combine_chunks())

    def close(self) -> None:
        self._writer.close()

    def _rows(self, unit: UnitLabels, index: int) -> pyarrow.Table:
        """The rows of one budget."""
        pa, labels = self._pa, unit.arrays
        n = len(labels["next_access"])
        blocks = labels["future_attention_blocks"]
        ends = np.arange(n + 1, dtype=np.int64) * len(blocks)

        def at(name: str) -> pyarrow.Array:
            type_ = self._schema.field(name).type
            return pa.array(labels[name][index], type_) if unit.budgets else pa.nulls(n, type_)

        columns = {
            "sequence": pa.repeat(unit.sequence, n),
            "layer": pa.repeat(pa.scalar(unit.layer, pa.int32()), n),
            "kv_head": pa.repeat(pa.scalar(unit.kv_head, pa.int32()), n),
            "token": pa.array(np.arange(n, dtype=np.int32)),
            "budget": pa.nulls(n, pa.int32()),
            "budget_request": pa.nulls(n, pa.string()),
            "future_attention": pa.array(labels["future_attention"]),
            "future_attention_blocks": pa.LargeListArray.from_arrays(ends, blocks.T.ravel()),
            "optimal_evicted_after": at("optimal_evicted_after"),
            "next_access": pa.array(labels["next_access"]),
            "slot_price": at("slot_price"),
        }
        if unit.budgets:
            columns["budget"] = pa.repeat(pa.scalar(unit.budgets[index], pa.int32()), n)
            columns["budget_request"] = pa.repeat(unit.budget_requests[index], n)
        return pa.table(columns, schema=self._schema)

    @staticmethod
    def holds_labels(path: Path) -> bool:
        pa = _pyarrow()
        try:
            return b"kvsim.block" in (pa.parquet.read_schema(path).metadata or {})
        except (OSError, pa.ArrowException):
            return False
