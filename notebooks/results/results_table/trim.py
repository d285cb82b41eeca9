"""Makes a submission of a result file: what the table of results needs, and nothing else."""

from __future__ import annotations

import re
import shlex
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import kvsim
from kvsim.errors import DataError, UsageError

from . import codes
from .submission import MEASURED, UNKNOWN, describe

KEPT = ("replay", "about", "run", *MEASURED)  # replay without rows: every result file has one
NOT_PUBLISHED = "not published"  # in the column host of the table run
_FOLDERS = re.compile(r"""(^|[=,;(\['"])~?/(?:[^/,;=]+/)*""")


def trim(
    source: Path, output: Path, about: Mapping[str, str | None], where: str | None = None
) -> None:
    """Writes the submission `output` of the result file `source`, which stays as it is.

    It keeps the rows of MEASURED for which the SQL condition `where` holds, and the runs that made
    them, without host and without the folders of files in their commands. `about` has the names of
    submission.ABOUT but for `name`. The digests of the source are compared first.
    Raises UsageError, DataError.
    """
    if output.suffix != ".sqlite":
        raise UsageError(f"-o: expected a name that ends in .sqlite, found {output}")
    if output.exists():
        raise UsageError(f"{output}: the file exists; remove it, or name another one")
    kvsim.check(source)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        # That folder may come in the way of nobody, and is on the disk of the file to be.
        aside = Path(folder, output.name)
        with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as there:
            there.execute("VACUUM INTO ?", [str(aside)])
        try:
            with closing(sqlite3.connect(aside)) as connection, connection:
                _keep(connection, source, where)
                _forget_places(connection)
                policies = list(_policies(connection))
        except sqlite3.Error as error:
            raise DataError(
                f"{source}: expected a result file of this version, found one of an earlier one "
                f"({error}); kvsim merge {source} -o NEW.sqlite makes one"
            ) from error
        describe(aside, {**about, "name": output.stem}, policies)
        aside.replace(output)


def _keep(connection: sqlite3.Connection, source: Path, where: str | None) -> None:
    listed = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY type DESC"
    )
    for kind, name in listed.fetchall():  # views before the tables that they show
        if kind == "view" or name not in KEPT:
            connection.execute(f'DROP {kind} "{name}"')
    connection.execute("DELETE FROM replay")
    there = [name for name in _tables(connection) if name in MEASURED]
    for table in there:
        if where is None:
            continue
        try:
            connection.execute(f"DELETE FROM {table} WHERE ({where}) IS NOT TRUE")
        except sqlite3.Error as error:
            raise UsageError(
                f"--where: expected an SQL condition on columns of {table}, found {where!r}: "
                f"{error}"
            ) from None
    if not any(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in there):
        raise DataError(
            f"{source}: expected rows of the running model ({', '.join(MEASURED)}), found none; "
            "python -m kvsim.evaluate and python -m kvsim.tasks evaluate write them"
        )
    made = " UNION ".join(f"SELECT run_id FROM {table} WHERE run_id IS NOT NULL" for table in there)
    connection.execute(f"DELETE FROM run WHERE run_id NOT IN ({made})")
    names = ", ".join(f"'{name}'" for name in (*there, "run", "replay"))
    connection.execute(f"DELETE FROM about WHERE table_name NOT IN ({names})")


def _tables(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return [name for (name,) in connection.execute(query)]


def _forget_places(connection: sqlite3.Connection) -> None:
    for run_id, command in connection.execute("SELECT run_id, command FROM run").fetchall():
        connection.execute(
            "UPDATE run SET command = ?, host = ? WHERE run_id = ?",
            [without_folders(command), NOT_PUBLISHED, run_id],
        )


def without_folders(command: str) -> str:
    """The command with the names alone of files that it gives by an absolute path."""
    if command.startswith("kvsim."):  # a call in Python
        return _FOLDERS.sub(r"\1", command)
    try:
        words = shlex.split(command)
    except ValueError:  # no line of a shell
        return " ".join(_FOLDERS.sub(r"\1", word) for word in command.split(" "))
    return shlex.join(_FOLDERS.sub(r"\1", word) for word in words)


def _policies(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str, int]]:
    """Rows of submission_policy."""
    found = set()
    for table in _tables(connection):
        if table in MEASURED:
            query = f"SELECT DISTINCT policy, policy_code, kvsim_version FROM {table}"
            found |= set(connection.execute(query).fetchall())
    said: dict[tuple[str, str], set[str]] = {}
    for policy, code, version in found:
        whose = codes.whose(policy, code or UNKNOWN, version)
        said.setdefault((policy, code or UNKNOWN), set()).add(whose)
    for (policy, code), verdicts in sorted(said.items()):
        # A code that one version has is built in, in rows of another version, too.
        order = (codes.BUILT_IN, codes.OWN, codes.NOT_COMPARED, codes.UNKNOWN)
        yield policy, code, min(verdicts, key=order.index), int(codes.is_oracle(policy))
