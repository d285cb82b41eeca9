"""Reads the SQLite file of results."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ..files.paths import exists


def executed(path: Path, sql: str, values: Sequence[object] = ()) -> tuple[list[str], list[tuple]]:
    """Names of columns, and rows. Raises sqlite3.Error."""
    with _connected(path) as connection:
        cursor = connection.execute(sql, values)
        return [column[0] for column in cursor.description], cursor.fetchall()


def batches(path: Path, sql: str, size: int) -> Iterator[list[tuple]]:
    """The rows of one reading of the file, `size` at a time. Raises sqlite3.Error."""
    with _connected(path) as connection:
        cursor = connection.execute(sql)
        while rows := cursor.fetchmany(size):
            yield rows


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Where the file system does not lock files, the file is read as it stands, unless a writer has
    left a transaction."""
    uri = path.resolve().as_uri() + "?mode=ro"
    try:
        connection = _opened(uri)
    except sqlite3.OperationalError as error:
        logs = [Path(f"{path}{end}") for end in ("-journal", "-wal")]
        if "is locked" in str(error) or any(exists(log) and log.stat().st_size for log in logs):
            raise
        connection = _opened(uri + "&immutable=1")
    with closing(connection):
        yield connection


def _opened(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # asks for the lock
    except sqlite3.Error:
        connection.close()
        raise
    return connection
