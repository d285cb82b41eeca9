"""The catalogue as text: for a terminal, as CSV, as JSON, and as the table of its page."""

from __future__ import annotations

import json

from ..errors.terminal import printable
from .entries import Entry, catalogue, entries, rows

FORMATS = ("text", "csv", "json", "markdown")


def listing(form: str) -> str:
    """The catalogue in one of FORMATS, with a line end."""
    if form == "json":
        return json.dumps(rows(), indent=2, ensure_ascii=False) + "\n"
    if form == "csv":
        from ..command.csv_text import csv_text

        return csv_text(catalogue())
    return _markdown() if form == "markdown" else _text()


def _size(entry: Entry) -> str:
    return "-" if entry.bytes is None else f"{entry.bytes / 1e6:.1f} MB"


def _text() -> str:
    table = [("name", "model", "sequences", "tokens", "layers", "file", "licence")]
    for entry in entries().values():
        counts = (str(entry.sequences), str(entry.tokens))
        of_file = (_size(entry), entry.licence)
        table.append((entry.name, entry.model, *counts, entry.layers, *of_file))
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "".join(f"{printable(line)}\n" for line in lines)


def _markdown() -> str:
    """A table of what the traces are, then digests, then the commands."""
    every = entries().values()
    lines = [
        "| name | what | model | texts | sequences, tokens | layers | licence |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in every:
        counts = f"{each.sequences}, {each.tokens:,}"
        cells = (f"`{each.name}`", each.about, each.model, each.texts, counts, each.layers)
        lines.append(f"| {' | '.join((*cells, each.licence))} |")
    lines += ["", "| name | bytes | SHA-256 of the file | `trace_id` | listed with |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for each in every:
        size = "-" if each.bytes is None else f"{each.bytes:,}"
        digests = (each.sha256 or "-", each.trace_id or "-", each.listed_with or "-")
        lines.append(f"| {' | '.join((f'`{each.name}`', size, *digests))} |")
    commands = "\n".join(each.command.replace(" && ", "\n") for each in every if each.command)
    return "\n".join([*lines, "", "```sh", commands, "```", ""])
