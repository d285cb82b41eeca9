"""Exports one table, or all of them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import KvsimError, UsageError
from ...files.outputs import replaceable
from ...files.partial import folder_aside, put_in_place, written_whole
from ...files.paths import exists, reason_of
from ..reading import Results, load
from .schema import Schema, schema_of
from .writers import FORMATS, holds_export, require_pyarrow, write

ALL = "all"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # of a file


def export(
    results: str | os.PathLike[str] | Results,
    output: str | os.PathLike[str],
    *,
    table: str = "replay",
    format: str | None = None,
    without: Sequence[str] = (),
) -> dict[str, int]:
    """Writes a table of a result file as Parquet or Arrow, or each table as a file of its name.

    Rows stand in the order of `kvsim export`, that of the key. The types of columns are those of
    the table, whatever its values: int64, float64 or string, with NULL for what does not apply.
    Each field has its ``meaning`` and ``unit`` as metadata, and the file says what a row is. Equal
    tables give equal bytes with the same pyarrow. Needs pyarrow.

    Parameters
    ----------
    results : path or Results
        A result file, or what `kvsim.load` gives.
    output : path
        The file, or the folder where `table` is ``"all"``, which is made if it is missing. Earlier
        exports are replaced, any other file is not.
    table : str
        A table or view; ``"all"``: all of them.
    format : {"parquet", "arrow"}, optional
        None: by the ending of `output`, and parquet in a folder. Arrow is the file format of its
        IPC, which can be mapped into memory.
    without : sequence of str
        Columns to leave out, of all tables that have them.

    Returns
    -------
    dict of str to int
        The number of rows of each file, by its path.

    Raises
    ------
    UsageError
        For an unknown table, column or format, or a file that would be lost.
    ResultsError
        For a result file that is damaged.
    KvsimError
        If pyarrow is missing, or a file cannot be written. None is left half-written.

    Examples
    --------
    >>> kvsim.export("results.sqlite", "replay.parquet")
    >>> kvsim.export("results.sqlite", "tables", table="all", format="arrow")
    """
    opened = results if isinstance(results, Results) else load(results)
    path, format_ = Path(output), _format(Path(output), table, format)
    require_pyarrow()
    schemas = {name: schema_of(opened, name, without) for name in _tables(opened, table)}
    _require_columns(schemas, without)
    if table != ALL:
        replaceable(path, "output", "table of kvsim", holds_export)
        return {str(path): _written(opened, schemas[table], path, format_)}
    return _written_all(opened, schemas, path, format_)


def _format(path: Path, table: str, format_: str | None) -> str:
    found = path.suffix.removeprefix(".") if format_ is None and table != ALL else format_
    found = "parquet" if found is None else found
    if found not in FORMATS:
        raise UsageError(f"format: expected {' or '.join(FORMATS)}, found {found or path}")
    return found


def _tables(results: Results, table: str) -> tuple[str, ...]:
    if table != ALL:
        if table not in results.tables:
            raise UsageError(
                f"table: {results.path} has no table {table}; it has {', '.join(results.tables)}"
            )
        return (table,)
    # SQLite keeps statistics of its own in some files.
    tables = tuple(name for name in results.tables if not name.startswith("sqlite_"))
    if wrong := [name for name in tables if not _NAME.fullmatch(name)]:
        raise UsageError(f"table: {wrong[0]!r} is no name of a file; export the tables one by one")
    return tables


def _require_columns(schemas: dict[str, Schema], without: Sequence[str]) -> None:
    known = dict.fromkeys(name for schema in schemas.values() for name in schema.all_names)
    if isinstance(without, str) or not {*without} <= {*known}:
        wrong = without if isinstance(without, str) else sorted({*without} - {*known})[0]
        raise UsageError(f"without: expected columns, found {wrong}; there are {', '.join(known)}")
    if empty := [schema.table for schema in schemas.values() if not schema.fields]:
        raise UsageError(f"without: leaves no column of {empty[0]}")


def _written(results: Results, schema: Schema, path: Path, format_: str) -> int:
    try:
        with written_whole(path) as partial:
            return write(results, schema, partial, format_)
    except OSError as error:
        raise KvsimError(f"{path}: cannot be written: {reason_of(error)}") from error


def _written_all(
    results: Results, schemas: dict[str, Schema], folder: Path, format_: str
) -> dict[str, int]:
    if exists(folder) and not folder.is_dir():
        raise UsageError(f"output: {folder}: expected a folder for all tables, found a file")
    files = {name: folder / f"{name}.{format_}" for name in schemas}
    for file in files.values():
        replaceable(file, "output", "table of kvsim", holds_export)
    rows = {}
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        with folder_aside(folder, "tables") as aside:
            for name, schema in schemas.items():
                rows[str(files[name])] = write(results, schema, aside / name, format_)
            put_in_place([(aside / name, file) for name, file in files.items()], aside)
    except OSError as error:
        raise KvsimError(f"{folder}: cannot be written: {reason_of(error)}") from error
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it holds the tables, or was not made
                folder.rmdir()
    return rows
