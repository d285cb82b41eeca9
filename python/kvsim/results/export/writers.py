"""Writes rows with pyarrow, a batch at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import KvsimError
from ..reading import Results, ResultsError
from .schema import Schema

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("parquet", "arrow")
BATCH = 16_384  # rows in memory at once, and in a row group
_MARK = b"kvsim.table"


def write(results: Results, schema: Schema, path: Path, format_: str) -> int:
    """Writes the rows of a table to `path`. Returns their number. Raises KvsimError, OSError."""
    pa = require_pyarrow()
    columns = _arrow_schema(pa, schema)
    if format_ == "parquet":
        writer = pa.parquet.ParquetWriter(path, columns)
    else:
        writer = pa.ipc.new_file(str(path), columns)
    rows = 0
    with writer:
        for batch in results._batches(schema.table, columns.names, BATCH):
            arrays = [
                _array(pa, results, schema.table, field, values)
                for values, field in zip(zip(*batch), columns)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=columns))
            rows += len(batch)
    return rows


def _array(pa, results: Results, table: str, field: pyarrow.Field, values: tuple):
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError) as error:  # in a view that is not kvsim's
        raise ResultsError(
            f"{results.path}: {table}.{field.name}: expected {field.type}, found another value: "
            f"{' '.join(str(error).split())}"
        ) from error


def holds_export(path: Path) -> bool:
    """Whether a file was written here."""
    pa = require_pyarrow()
    for read in (pa.parquet.read_schema, lambda file: pa.ipc.open_file(str(file)).schema):
        try:
            return _MARK in (read(path).metadata or {})
        except (OSError, pa.ArrowException):
            continue
    return False


def _arrow_schema(pa: pyarrow, schema: Schema) -> pyarrow.Schema:  # type: ignore[valid-type]
    types = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
    fields = []
    for field in schema.fields:
        about = {"meaning": field.meaning, "unit": field.unit}
        known = {name: text for name, text in about.items() if text}
        fields.append(pa.field(field.name, types[field.type], metadata=known or None))
    about = {_MARK: schema.table, "kvsim.shows": schema.shows, "kvsim.source": schema.source}
    return pa.schema(fields, metadata={name: text for name, text in about.items() if text})


def require_pyarrow():
    """pyarrow, loaded. Raises KvsimError where it is missing."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise KvsimError(
            f"Parquet and Arrow files need pyarrow ({error}): pip install 'kvsim[parquet]'"
        ) from error
    return pyarrow
