"""The entries of the catalogue, from `catalogue.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """What is known of one trace. None: it is not known, or nobody has published the file."""

    name: str
    about: str
    model: str
    texts: str
    sequences: int
    tokens: int
    layers: str  # as in "3 of 30"
    licence: str
    bytes: int | None = None  # of the file, as is its digest
    sha256: str | None = None
    trace_id: str | None = None
    listed_with: str | None = None  # the versions that gave trace_id
    file: str | None = None  # its path in the source folder
    make: dict[str, Any] | None = None  # what make.py reads

    @property
    def command(self) -> str | None:
        """The command that makes it; None: there is none any more."""
        if self.make is None:
            return None
        output = f"-o {self.name}.h5"
        if "synth" in self.make:
            return " ".join(["kvsim synth", output, *_flags(self.make["synth"])])
        model, texts = self.make["model"], self.make["texts"]
        named = texts.get("named", texts["file"])
        words = ["python -m kvsim.record", model.get("folder") or model["file"]]
        command = " ".join([*words, "--texts", named, output, *self.make["options"]])
        if "first" not in texts:
            return command
        return f"head -n {texts['first']} {texts['file']} >{named} && {command}"


def _flags(options: dict[str, Any]) -> list[str]:
    flags = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        flags += [flag] if value is True else [flag, str(value)]
    return flags


@cache
def entries() -> dict[str, Entry]:
    """The entries by name, in the order of the page."""
    listed = json.loads(Path(__file__).with_name("catalogue.json").read_text("utf-8"))["traces"]
    return {each["name"]: Entry(**each) for each in listed}


def entry_named(name: str) -> Entry:
    """Raises UsageError for a name that is not listed."""
    known = entries()
    if name in known:
        return known[name]
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    raise UsageError(
        f"no trace is called '{name}'; did you mean '{near}'? kvsim traces lists all of them"
    )


def rows() -> list[dict[str, Any]]:
    """An entry per row, without what only make.py reads, with the command."""
    names = [field.name for field in fields(Entry) if field.name != "make"]
    return [
        {**{name: getattr(entry, name) for name in names}, "command": entry.command}
        for entry in entries().values()
    ]


def catalogue() -> pd.DataFrame:
    """List the traces that are known, with digest, size, licence and the command that makes each.

    Returns
    -------
    pandas.DataFrame
        A row per trace, with the columns `name`, `about`, `model`, `texts`, `sequences`, `tokens`
        (of all sequences), `layers` (as in "3 of 30"), `licence`, `bytes` and `sha256` (of the
        file), `trace_id`, `listed_with` (the versions that gave `trace_id`), `file` (its path in
        the source folder) and `command`. What is not known is missing.

    Examples
    --------
    >>> kvsim.catalogue().set_index("name").loc["tiny-retriever"].licence
    'Apache-2.0 (texts: public domain)'
    """
    import pandas as pd

    return pd.DataFrame(rows()).astype({"bytes": "Int64"})
