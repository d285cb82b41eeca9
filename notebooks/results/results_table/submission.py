"""A submission: a result file that holds rows of a running model, and who measured them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import kvsim
from kvsim import _engine

# The tables with measured rows, and what names a row of each.
MEASURED = {
    "closed_loop": ["model_id", "loop", "mode"],
    "task_answer": ["model_id", "question", "mode"],
}
# What the file says of itself: one row, and one for each policy with its code.
ABOUT = {
    "name": "the name of the file, without .sqlite",
    "submitted_by": "who measured it",
    "submitted": "the date, YYYY-MM-DD",
    "texts": "where the texts are published, or what they are",
    "note": "what a reader should know; may be NULL",
    "exception": "why values are NULL that every submission has to have; NULL where none is",
}
POLICY = ["policy", "policy_code", "code", "is_oracle"]
_POLICIES = (
    "CREATE TABLE submission_policy (policy TEXT NOT NULL, policy_code TEXT NOT NULL, "
    "code TEXT NOT NULL, is_oracle INTEGER NOT NULL, PRIMARY KEY (policy, policy_code)) "
    "WITHOUT ROWID"
)
UNKNOWN = ""  # the policy_code, in submission_policy, of rows that have NULL


@dataclass(frozen=True)
class Submission:
    """What a file holds. Frames have the columns of their tables; `measured` lacks empty ones."""

    path: Path
    about: dict[str, str | None]  # by the names of ABOUT
    policies: pd.DataFrame  # POLICY
    measured: dict[str, pd.DataFrame]
    runs: pd.DataFrame
    others: dict[str, int]  # rows of tables that a submission does not need

    @property
    def name(self) -> str:
        return self.path.stem


def read(path: Path) -> Submission:
    """Raises ResultsError, DataError where the file is no submission."""
    results = kvsim.load(path)
    for table, maker in (("submission", 1), ("submission_policy", 1)):
        if table not in results.tables or len(results[table]) < maker:
            raise kvsim.DataError(
                f"{path}: expected a table {table}, which says who submits what, found none; make "
                f"the file with build.py --trim"
            )
    row = results["submission"].iloc[0]
    about = {name: _text(row.get(name)) for name in ABOUT}
    measured = {name: results[name] for name in MEASURED if name in results.tables}
    of_file = ("about", "digest", "run", "submission", "submission_policy")
    others = set(results.tables) - {*of_file, *MEASURED, "regret", "predicted_kl"}
    return Submission(
        path=path,
        about=about,
        policies=results["submission_policy"][POLICY],
        measured={name: frame for name, frame in measured.items() if len(frame)},
        runs=results["run"] if "run" in results.tables else pd.DataFrame({"run_id": []}),
        others={name: rows for name in sorted(others) if (rows := len(results[name]))},
    )


def _text(value: object) -> str | None:
    return None if value is None or pd.isna(value) else str(value)


def describe(path: Path, about: Mapping[str, str | None], policies: Sequence[tuple]) -> None:
    """Says in the file whose it is, and gives all its rows new digests.

    `policies` are rows of POLICY. Rows that were there are as they were, so whoever calls this has
    compared their digests before.
    """
    columns = ", ".join(f"{name} TEXT" for name in ABOUT if name != "name")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"CREATE TABLE submission (name TEXT NOT NULL PRIMARY KEY, {columns}) WITHOUT ROWID"
        )
        marks = ", ".join("?" * len(ABOUT))
        connection.execute(
            f"INSERT INTO submission VALUES ({marks})", [about.get(name) for name in ABOUT]
        )
        connection.execute(_POLICIES)
        connection.executemany("INSERT INTO submission_policy VALUES (?, ?, ?, ?)", policies)
    digest_again(path)


def digest_again(path: Path) -> None:
    """Gives all rows of a file new digests, as they are now."""
    # A file without digests is one of before them, to which the next writer gives some
    # (sim/results/integrity/README.md).
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE IF EXISTS digest")
        connection.execute("PRAGMA application_id = 0")
        connection.execute("PRAGMA user_version = 0")
    _engine.ClosedLoopFile(str(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
