"""What a result file holds, for a terminal and for a notebook.

Reads a bounded number of rows, so that a file of gigabytes is described at once, and never raises:
what cannot be read is said to be so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from ..errors.terminal import printable

MOST_ROWS = 100_000  # that are counted or looked at in a table
_MOST_NAMES = 12
# What is listed of a file, with the column and the tables that may have it.
_LISTED = {
    "policies": "policy",
    "budgets": "budget_request",
    "modes": "mode",
    "traces": "trace",
    "models": "model",
}
_OF_TABLES = ("replay", "closed_loop", "task_answer", "fetch", "curve")

Query = Callable[[str], list[tuple]]


class Described(NamedTuple):
    """`facts`: label and text; `tables`: name, number of rows, and what a row is."""

    facts: list[tuple[str, str]]
    tables: list[tuple[str, str, str]]


def described(tables: tuple[str, ...], query: Query, shows: Callable[[str], str]) -> Described:
    """Describes a file by queries that return rows; `shows` says what a row of a table is."""
    views = {name for (name,) in _rows(query, "SELECT name FROM sqlite_master WHERE type = 'view'")}
    lines = []
    for table in tables:
        if table == "digest":  # of the file's own checks
            continue
        # A view is computed from other tables row by row: it is not counted.
        number = "view" if table in views else _count(query, table)
        lines.append((table, number, _row_of(shows, table)))
    return Described(_facts(tables, query), lines)


def as_text(title: str, found: Described) -> str:
    """A few aligned lines; control characters of names are shown as escapes."""
    lines = [title]
    lines += [f"  {label:<9} {text}" for label, text in found.facts]
    width = max((len(name) for name, _, _ in found.tables), default=0)
    most = max((len(number) for _, number, _ in found.tables), default=0)
    lines += [
        f"  .{name:<{width}}  {number:>{most}}  {row}".rstrip()
        for name, number, row in found.tables
    ]
    return "\n".join(printable(line) for line in lines)


def as_html(title: str, found: Described) -> str:
    """Two quiet tables, without scripts and styles of a page; all text is escaped."""
    left = ' style="text-align:left"'
    facts = "".join(
        f"<tr><th{left}>{escape(label)}</th><td{left}>{escape(text)}</td></tr>"
        for label, text in found.facts
    )
    rows = "".join(
        f"<tr><td{left}><code>{escape(name)}</code></td><td>{escape(number)}</td>"
        f"<td{left}>{escape(row)}</td></tr>"
        for name, number, row in found.tables
    )
    head = f"<tr><th{left}>table</th><th>rows</th><th{left}>a row is</th></tr>"
    return (
        f"<div><b>{escape(title)}</b><table>{facts}</table>"
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    )


def _facts(tables: tuple[str, ...], query: Query) -> list[tuple[str, str]]:
    facts = []
    if "run" in tables:
        versions = _rows(query, "SELECT DISTINCT kvsim_version FROM run ORDER BY 1")
        if versions:
            facts.append(("written", "by kvsim " + _listed([str(name) for (name,) in versions])))
    for label, column in _LISTED.items():
        names: dict[str, None] = {}
        for table in _OF_TABLES:
            if table in tables:
                some = f"(SELECT t.{column} AS name FROM {table} t LIMIT {MOST_ROWS})"
                for (name,) in _rows(query, f"SELECT DISTINCT name FROM {some}"):
                    if name is not None:
                        names[str(name)] = None
        if names:
            facts.append((label, _listed(list(names))))
    return facts


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _row_of(shows: Callable[[str], str], table: str) -> str:
    """The first clause of what a row is; nothing where the file does not say it."""
    try:
        return shows(table).partition("; ")[0]
    except Exception:
        return ""


def _count(query: Query, table: str) -> str:
    name = table.replace('"', '""')
    try:
        ((number,),) = query(f'SELECT count(*) FROM (SELECT 1 FROM "{name}" LIMIT {MOST_ROWS + 1})')
    except (sqlite3.Error, OSError):
        return "unreadable"
    return f"{number:,}" if number <= MOST_ROWS else f"over {MOST_ROWS:,}"


def _rows(query: Query, sql: str) -> list[tuple]:
    """Nothing where a table lacks the column or is damaged."""
    try:
        return query(sql)
    except (sqlite3.Error, OSError):
        return []
