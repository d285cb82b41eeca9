"""What the program `kvsim` asks the package: the policies of installed packages, as text."""

from __future__ import annotations

import os

from ..errors import UsageError
from . import entry_points, packages
from .policy import registered_here
from .selector import registered_selector


def main(words: list[str]) -> None:
    """Writes the answer for the program, and nothing that packages print when they are loaded."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        answer.write(answer_to(words))


def answer_to(words: list[str]) -> str:
    """`list`: all. `explain NAME`: one, or nothing if no package has it, or a line `error` and the
    error. `find KIND NAME`, where KIND is policy or selector: where its code is, as a line `file`,
    `package` or `error`, and a line with the file, the package or the error."""
    if words[0] == "list":
        return _all()
    return _explained(words[1]) if words[0] == "explain" else _found(words[1], words[2])


def _all() -> str:
    text = ""
    for group in (packages.POLICIES, packages.SELECTORS):
        left_out = entry_points.load_all(group)
        names = packages.declared(group)
        text += "".join(
            _text_of(group, row) for row in _rows(group) if row["name"] in names and row["origin"]
        )
        text += "".join(f"left out: {line}\n" for line in left_out)
    return text


def _explained(name: str) -> str:
    for group in (packages.POLICIES, packages.SELECTORS):
        try:
            if entry_points.find(group, name):
                return "".join(_text_of(group, row) for row in _rows(group) if row["name"] == name)
        except UsageError as error:
            return f"error\n{error}\n"
    return ""


def _found(kind: str, name: str) -> str:
    group = packages.POLICIES if kind == "policy" else packages.SELECTORS
    try:
        if not entry_points.find(group, name):
            return ""
    except UsageError as error:
        return f"error\n{error}\n"
    (row,) = [row for row in _rows(group) if row["name"] == name]
    if row["origin"] != "Python":
        return f"file\n{row['origin']}\n"
    return f"package\n{_origin_of(group, row)}\n"


def _rows(group: str) -> list[dict]:
    from .. import _engine

    return _engine.policies() if group == packages.POLICIES else _engine.selectors()


def _origin_of(group: str, row: dict) -> str:
    of_name = registered_here if group == packages.POLICIES else registered_selector
    return entry_points.origin_of(row, of_name(row["name"]))


def _text_of(group: str, row: dict) -> str:
    """One as the program prints those that are built in."""
    is_policy = group == packages.POLICIES
    defaults = ",".join(f"{name}={default}" for name, default, *_ in row["parameters"])
    lines = [
        ("keeps", row["keeps"]) if is_policy else ("chooses", row["chooses"]),
        ("source", row["source"]),
        ("from", _origin_of(group, row)),
        *[
            (f"{name}={default}", f"{about} ({allowed})".strip())
            for name, default, about, allowed in row["parameters"]
        ],
        *[(f"preset={name}", settings) for name, settings, _ in row.get("presets", ())],
    ]
    title = f"{row['name']}:{defaults}" if defaults else row["name"]
    if not is_policy:
        title = f"kvsim fetch --select {title}"
    return "".join([f"{title}\n", *(f"    {left:<20} {right}\n" for left, right in lines if right)])
