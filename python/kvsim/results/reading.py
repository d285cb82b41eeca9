"""Reads a result file: every table becomes a pandas frame."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import KvsimError
from ..files.paths import is_file
from .columns import tables
from .database import batches, executed
from .description import Described, as_html, as_text, described

if TYPE_CHECKING:  # loaded on use, so that a command can report a missing pandas in one line
    import pandas as pd

_VIEWED = {"regret": "replay", "predicted_kl": "layer_error"}  # the tables that views show


class ResultsError(KvsimError):
    """The file is missing, is not a result file, or has values that cannot be."""


class NoSuchTable(KvsimError, AttributeError, KeyError):
    """The result file lacks a table. The message lists its tables and a command that adds it."""

    __str__ = Exception.__str__  # KeyError would put the message in quotes


class Results:
    """A result file, read-only.

    Every table and view is a pandas frame, read on first access: `results.replay` or
    `results["power_law"]`.

    Parameters
    ----------
    path : path
        A result file (SQLite).

    Attributes
    ----------
    path : pathlib.Path
        The file.
    tables : tuple of str
        The names of its tables and views, in alphabetic order.

    Raises
    ------
    ResultsError
        If the file is missing, is not a result file, or is of a newer kvsim; when a table is read,
        for a value of another type than its column, for infinity, and for numbers that a column
        cannot have, as a recall of 2.
    NoSuchTable
        When a table is read that the file lacks.

    Notes
    -----
    A frame's `attrs["about"]` gives the meaning and unit of each column, `attrs["shows"]` the
    meaning of a row and `attrs["source"]` the paper that measures it. NULL, which means "does not
    apply", becomes NaN. A frame is a copy: later accesses do not see your changes.

    References
    ----------
    Tables and their columns: sim/results/columns.md.

    Examples
    --------
    >>> results = kvsim.load("results.sqlite")
    >>> results.replay.groupby(["policy", "budget"]).attention_recall.mean()
    >>> results.replay.attrs["about"]["attention_recall"]
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not is_file(self.path):
            raise ResultsError(f"{self.path}: there is no such result file")
        self._check("check_format")
        self._frames: dict[str, pd.DataFrame] = {}
        names = self._query("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables: tuple[str, ...] = tuple(sorted(names["name"]))

    def __getitem__(self, table: str) -> pd.DataFrame:
        """A copy of the table: later accesses do not see your changes.

        Raises NoSuchTable; ResultsError for a value of another type than its column, for infinity,
        and for numbers that a column cannot have, as a recall of 2.
        """
        if table not in self.tables:
            there = ", ".join(self.tables) or "no tables at all"
            raise NoSuchTable(
                f"{self.path} has no table {table}; it has {there}. {self._made_by(table)}"
            )
        if table not in self._frames:
            self._check("check_table", _VIEWED.get(table, table))
            frame = self._query(f'SELECT * FROM "{table}"')
            frame.attrs.update(self._about(table, list(frame.columns)))
            self._frames[table] = frame
        return self._frames[table].copy()

    def __getattr__(self, table: str) -> pd.DataFrame:
        if table.startswith("_") or table == "tables":  # copy and pickle look for such names
            raise AttributeError(table)
        return self[table]

    def __contains__(self, table: str) -> bool:
        return table in self.tables

    def __dir__(self):
        return [*super().__dir__(), *self.tables]

    def __repr__(self) -> str:
        """What is in the file, in a few lines. Reads some rows; never raises."""
        return as_text(f"kvsim.Results({str(self.path)!r})", self._described())

    def _repr_html_(self) -> str:
        return as_html(f"kvsim.Results({str(self.path)!r})", self._described())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's repr: one line within a list or dict."""
        nested = len(printer.stack) > 1
        printer.text(f"kvsim.Results({str(self.path)!r})" if nested else repr(self))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.tables)

    def _described(self) -> Described:
        def query(sql: str) -> list[tuple]:
            return executed(self.path, sql, ())[1]

        def shows(table: str) -> str:
            return str(self._about(table, [])["shows"])

        return described(self.tables, query, shows)

    def _made_by(self, table: str) -> str:
        if table in ("layer_error", "predicted_kl"):
            return (
                "What would write it, from a trace that was recorded with --also "
                "output_projection,output_score_grad: kvsim sweep TRACE --policies SPECS "
                f"--budgets LIST -o {self.path}; of selectors: kvsim fetch"
            )
        if table == "sampled_interval":
            return (
                "What would write it: kvsim sweep TRACE --policies SPECS --budgets LIST "
                f"--reference sample:N -o {self.path}"
            )
        if table.startswith("closed_loop"):
            per_step = "--per-step " if table == "closed_loop_step" else ""
            return (
                "What would write one: python -m kvsim.evaluate MODEL --text FILE "
                f"--policies SPECS --budgets LIST {per_step}-o {self.path}"
            )
        if table == "task_answer":
            return (
                "What would write one: python -m kvsim.tasks evaluate MODEL --texts FILE "
                f"--policies SPECS --budgets LIST -o {self.path}"
            )
        if table == "curve":
            return f"What would write one: kvsim curve TRACE --policies SPECS -o {self.path}"
        if table == "fetch":
            command = f"kvsim fetch TRACE --select SPECS --resident LIST -o {self.path}"
            return f"What would write one: {command}"
        if table in tables():
            command = f"kvsim sweep TRACE --policies SPECS --budgets LIST -o {self.path}"
            return f"What would write one: {command}"
        return (
            "An analysis writes the table of its name, and kvsim analyze --help names them: "
            f"kvsim analyze TRACE --what NAME -o {self.path}"
        )

    def _about(self, table: str, columns: list[str]) -> dict[str, object]:
        if table in tables() or "about" not in self.tables:
            return about_table(table, columns)
        rows = self._query("SELECT * FROM about WHERE table_name = ?", table)
        meanings = dict(zip(rows["column_name"], rows["meaning"]))
        shows, source = meanings.get("", ""), rows["source"].iloc[0] if len(rows) else ""
        return _attrs(columns, {"shows": shows, "source": source, "about": meanings})

    def _damaged(self, error: sqlite3.Error) -> ResultsError:
        return ResultsError(f"{self.path}: expected a result file (SQLite), found {error}")

    def _check(self, what: str, *values: str) -> None:
        from .. import _engine

        try:
            getattr(_engine, what)(str(self.path), *values)
        except KvsimError as error:
            raise ResultsError(str(error)) from error

    def _column_types(self, table: str) -> dict[str, str]:
        """INTEGER, REAL or TEXT by column; empty for what a view computes."""
        found = self._query("SELECT name, type FROM pragma_table_info(?)", table)
        return dict(zip(found["name"], found["type"]))

    def _batches(self, table: str, columns: Sequence[str], size: int) -> Iterator[list[tuple]]:
        """The rows in the order of the key, checked as by `results[table]`, `size` at a time."""
        self._check("check_table", _VIEWED.get(table, table))
        # All columns are asked for: without some, SQLite may scan an index in another order.
        all_columns = list(self._column_types(table))
        places = [all_columns.index(column) for column in columns]
        try:
            for rows in batches(self.path, f'SELECT * FROM "{table}"', size):
                yield [tuple(row[place] for place in places) for row in rows]
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _query(self, sql: str, *values: object) -> pd.DataFrame:
        import pandas as pd

        try:
            columns, rows = executed(self.path, sql, values)
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        frame = pd.DataFrame(rows, columns=columns)
        for column in frame.columns[frame.dtypes == "object"]:
            # Numbers mixed with NULLs arrive as objects. A column without rows keeps its type.
            values = list(frame[column])
            if values and all(value is None or isinstance(value, (int, float)) for value in values):
                frame[column] = frame[column].astype(float)
        return frame


def about_table(table: str, columns: list[str]) -> dict[str, object]:
    """The attrs of a frame of one of the tables that the engine declares; empty of others."""
    return _attrs(columns, tables().get(table, {}))


def _attrs(columns: list[str], declared: dict[str, Any]) -> dict[str, object]:
    meanings = declared.get("about", {})
    found = {name: declared.get(name, "") for name in ("shows", "source")}
    return {**found, "about": {column: meanings.get(column, "") for column in columns}}


def load(path: str | Path) -> Results:
    """Opens a result file of `kvsim sweep`, `kvsim analyze` or `kvsim.evaluate`.

    Parameters
    ----------
    path : path
        A result file (SQLite).

    Returns
    -------
    Results
        Its tables, each a frame.

    Raises
    ------
    ResultsError
        If the file is missing, is not a result file, or is of a newer kvsim.

    Examples
    --------
    >>> kvsim.load("results.sqlite").replay
    """
    return Results(path)
