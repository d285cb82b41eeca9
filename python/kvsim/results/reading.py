"""Reads a result file: every table becomes a pandas frame."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import KvsimError
from ..files.paths import exists, is_file

if TYPE_CHECKING:  # loaded on use, so that a command can report a missing pandas in one line
    import pandas as pd

_REPLAY = {
    "": "one policy at one budget on one KV head of one layer of one sequence",
    "trace_id": "the trace: its trace_id, or the SHA-256 of the file",
    "sequence": "the recorded text",
    "layer": "0-based",
    "kv_head": "0-based within the layer",
    "policy": "canonical spec: every parameter with its value",
    "budget": "most tokens that the KV head may keep, in tokens",
    "mode": "stream: every step is measured; prefill: only the steps after the prompt. Suffix "
    "interval=K: the cache may exceed its budget by K - 1 tokens; interval=never: the prompt is "
    "cut once and every later token stays. Suffix every=K: output errors only at the last step and "
    "every K-th step before it. Suffix reference=none: no comparison with the full attention; "
    "reference=sample:N: at N steps alone, with intervals in the table sampled_interval",
    "seed": "of the policy's random choices",
    "trace": "the trace file, as named on the command line",
    "budget_request": "the budget as it was asked for: tokens, or a share",
    "steps": "measured steps",
    "attention_recall": "share of the full attention that falls on tokens in the cache, 0..1; "
    "this and all below up to evictions is NULL without a reference",
    "attention_loss": "1 - attention_recall",
    "miss_rate": "of the pivotal tokens, a[t,j] > 1/(t+1), the share not in the cache, 0..1",
    "token_accesses": "pivotal tokens, summed over query heads and steps",
    "token_misses": "pivotal tokens that are not in the cache",
    "output_error_mean": "|o - o'| / |o| of the attention outputs o of the full and o' of the "
    "evicting cache, mean over query heads and steps",
    "output_error_p50": "the same, median",
    "output_error_p95": "the same, 95th percentile",
    "output_error_max": "the same, largest",
    "output_error_sq": "|o - o'|^2, in absolute terms, mean over query heads and steps; ranks "
    "policies at one budget better than the relative error, which counts heads alike that write "
    "little",
    "predicted_kl": "what the model's predictions lose by it, to second order, in nats per token: "
    "half the mean of (g . (o' - o))^2, g the gradient of the log-probability of tokens that the "
    "model drew; summed over query heads. NULL: the trace has no output_score_grad",
    "bound_mean": "Scissorhands Lemma B.4, an upper bound of the error; NULL: does not apply",
    "bound_violations": "errors above their bound; NULL: does not apply",
    "evictions": "number of evicted tokens",
    "peak_tokens": "most tokens held after a step, in tokens",
    "cache_bytes": "the keys and values of these tokens, in bytes",
    "device": "the device that computed the row",
    "kvsim_version": "the release and source revision that wrote the row",
    "label": "the name that the user gave the policy; NULL without one",
    "ties": "evictions that equal scores decided; NULL for estimators and in rows of earlier "
    "versions",
    "policy_code": "a digest of the policy's code and the version of the engine's numbers; "
    "kvsim sweep makes rows of another code again",
    "run_id": "the row of the table run of the command that wrote this row",
}
_REGRET = {
    "": "a row of replay and an oracle on the same unit at the same budget",
    "oracle": "canonical spec of the oracle",
    "oracle_recall": "attention_recall of the oracle, 0..1",
    "regret": "oracle_recall - attention_recall",
    "gap_closed": "(recall - window) / (optimal - window); NULL: one of the two is missing. "
    "Not to be averaged: it is unbounded where the gap is small; take the ratio of mean recalls",
}
_PREDICTED_KL = {
    "": "one policy at one budget on one sequence",
    **{
        name: _REPLAY[name] for name in ("trace_id", "sequence", "policy", "budget", "mode", "seed")
    },
    "predicted_kl": "nats per token, the sum over layers; NULL: a layer is missing",
    "is_indicative": "1 above 0.3 nats per token: the prediction is local, and such damage is not",
}
_CERTIFICATE = {
    "": "an upper bound that an oracle proves",
    "recall_bound": "no policy's attention_recall exceeds it on this unit at this budget, 0..1; "
    "NULL: the oracle minimises another cost",
    "loss": "of the oracle's schedule, in the units of its cost: mean over the steps that count",
    "loss_bound": "no policy loses less on this unit at this budget",
    "gap": "loss - loss_bound",
}
_RUN = {
    "": "a command that wrote rows",
    "run_id": "when it started, and random digits; the rows that it wrote have the same",
    "started": "UTC, ISO 8601",
    "seconds": "from its start until the last of its rows was written",
    "command": "as a shell takes it",
    "kvsim_version": "the release and source revision of the program",
    "host": "the machine on which it ran",
    "device": "the device that computed the attention",
    "threads": "how many units it worked on at once",
    "rows_written": "rows of all tables, later replaced ones included",
    "shard": "as in 3/16; NULL: it did all of its work",
    "study": "what all shards of the same work have in common; NULL without shards",
    "finished": "1: the file holds all that its command asked for",
}
_DIGEST = {
    "": "the rows of one unit in one table, as they were written; kvsim check compares",
    "table_name": "the table or view",
    "unit": "the model, trace, sequence, layer and head, as JSON; schema: the SQL of the table",
    "rows": "how many there are",
    "digest": "the sum of the XXH3-64 of all rows modulo 2^64, in hexadecimal",
}
# The table `about` of a result file explains the tables of analyses. These explain the others.
_MEANINGS = {
    "replay": _REPLAY,
    "regret": {**_REPLAY, **_REGRET},
    "certificate": {**_REPLAY, **_CERTIFICATE},
    "predicted_kl": _PREDICTED_KL,
    "run": _RUN,
    "digest": _DIGEST,
}
_VIEWED = {"regret": "replay", "predicted_kl": "layer_error"}  # the tables that views show


class ResultsError(KvsimError):
    """The file is missing, is not a result file, or has values that cannot be."""


class NoSuchTable(KvsimError, AttributeError, KeyError):
    """The result file lacks a table. The message lists its tables and a command that adds it."""

    __str__ = Exception.__str__  # KeyError would put the message in quotes


class Results:
    """A result file, read-only.

    Every table and view is a pandas frame, read on first access: `results.replay` or
    `results["power_law"]`. Its `attrs["about"]` gives the meaning and unit of each column,
    `attrs["shows"]` the meaning of a row and `attrs["source"]` the paper that measures it. NULL,
    which means "does not apply", becomes NaN.
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
        return f"kvsim.Results({str(self.path)!r}: {', '.join(self.tables)})"

    def _made_by(self, table: str) -> str:
        if table in ("layer_error", "predicted_kl"):
            return (
                "What would write it, from a trace that was recorded with --also "
                "output_projection,output_score_grad: kvsim sweep TRACE --policies SPECS "
                f"--budgets LIST -o {self.path}"
            )
        if table == "sampled_interval":
            return (
                "What would write it: kvsim sweep TRACE --policies SPECS --budgets LIST "
                f"--reference sample:N -o {self.path}"
            )
        if table in _MEANINGS:
            command = f"kvsim sweep TRACE --policies SPECS --budgets LIST -o {self.path}"
            return f"What would write one: {command}"
        if table == "closed_loop":
            return (
                "What would write one: python -m kvsim.evaluate MODEL --text FILE "
                f"--policies SPECS --budgets LIST -o {self.path}"
            )
        return (
            "An analysis writes the table of its name, and kvsim analyze --help names them: "
            f"kvsim analyze TRACE --what NAME -o {self.path}"
        )

    def _about(self, table: str, columns: list[str]) -> dict[str, object]:
        if table in _MEANINGS or "about" not in self.tables:
            return about_table(table, columns)
        rows = self._query("SELECT * FROM about WHERE table_name = ?", table)
        meanings = dict(zip(rows["column_name"], rows["meaning"]))
        return about_table(table, columns, meanings, rows["source"].iloc[0] if len(rows) else "")

    def _check(self, what: str, *values: str) -> None:
        from .. import _engine

        try:
            getattr(_engine, what)(str(self.path), *values)
        except KvsimError as error:
            raise ResultsError(str(error)) from error

    def _query(self, sql: str, *values: object) -> pd.DataFrame:
        import pandas as pd

        try:
            columns, rows = _executed(self.path, sql, values)
        except sqlite3.Error as error:
            raise ResultsError(
                f"{self.path}: expected a result file (SQLite), found {error}"
            ) from error
        frame = pd.DataFrame(rows, columns=columns)
        for column in frame.columns[frame.dtypes == "object"]:
            # Numbers mixed with NULLs arrive as objects. A column without rows keeps its type.
            values = list(frame[column])
            if values and all(value is None or isinstance(value, (int, float)) for value in values):
                frame[column] = frame[column].astype(float)
        return frame


def about_table(
    table: str, columns: list[str], meanings: dict[str, str] | None = None, source: str = ""
) -> dict[str, object]:
    """The attrs of a frame; without `meanings`, of a table that `about` does not explain."""
    if meanings is None:
        meanings = _MEANINGS.get(table, {})
    about = {column: meanings.get(column, "") for column in columns}
    return {"shows": meanings.get("", ""), "source": source, "about": about}


def load(path: str | Path) -> Results:
    """Opens a result file of `kvsim sweep`, `kvsim analyze` or `kvsim.evaluate`.

    Raises ResultsError if the file is missing, is not a result file, or is of a newer kvsim.
    """
    return Results(path)


def _executed(path: Path, sql: str, values: tuple[object, ...]) -> tuple[list[str], list[tuple]]:
    """Names of columns, and rows.

    Where the file system does not lock files, the file is read as it stands, unless a writer has
    left a transaction.
    """
    uri = path.resolve().as_uri() + "?mode=ro"
    try:
        return _executed_at(uri, sql, values)
    except sqlite3.OperationalError as error:
        logs = [Path(f"{path}{end}") for end in ("-journal", "-wal")]
        if "is locked" in str(error) or any(exists(log) and log.stat().st_size for log in logs):
            raise
        return _executed_at(uri + "&immutable=1", sql, values)


def _executed_at(uri: str, sql: str, values: tuple[object, ...]) -> tuple[list[str], list[tuple]]:
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        cursor = connection.execute(sql, values)
        return [column[0] for column in cursor.description], cursor.fetchall()
