"""What must hold for a submission to be taken. Each failure is a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pandas as pd

import kvsim
from kvsim.bootstrap import FEWEST_SAMPLES
from kvsim.errors import KvsimError

from . import codes
from .submission import ABOUT, MEASURED, UNKNOWN, Submission, read

MOST_BYTES = 2_000_000
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,59}")
# What every row has. The first may be NULL with a reason, the column `exception`.
EXCUSABLE = ("kvsim_version", "policy_code", "device", "run_id")
NEEDED = {
    "closed_loop": ("text_id", "model", "budget_request", "kl_mean"),
    "task_answer": ("text_id", "model", "budget_request", "task", "length", "answers"),
}
FULL = "full"
_TRIM = "make the file with build.py --trim"
_MEASURE_AGAIN = "measure again with this version of kvsim"


def faults(path: Path) -> list[str]:
    """Lines that say what was expected, what was found, and the fix; none if the file is valid."""
    try:
        found = kvsim.check(path)
        if "table" not in found:
            return [f"{path}: expected a result file (SQLite), found a trace; {_TRIM}"]
        submission = read(path)
    except KvsimError as error:
        return [str(error)]
    undigested = found.loc[found.verdict != "agrees", "table"]
    lines = [f"expected digests of the table {name}, found none; {_TRIM}" for name in undigested]
    lines += _of_file(submission)
    for table, frame in submission.measured.items():
        values = list(_of_values(table, frame, submission))
        lines += values or list(_of_texts(table, frame))
    return [f"{path}: {line}" for line in lines]


def _of_file(submission: Submission) -> Iterator[str]:
    about, size = submission.about, submission.path.stat().st_size
    if size > MOST_BYTES:
        yield f"expected up to {MOST_BYTES:,} bytes, found {size:,}; {_TRIM}, with --where for less"
    if not NAME.fullmatch(submission.name):
        yield (
            "name: expected up to 60 lower-case letters, digits, points and hyphens, found "
            f"{submission.name!r}; {_TRIM} and another name"
        )
    if about["name"] != submission.name:
        yield f"name: expected {submission.name!r}, found {about['name']!r}; {_TRIM} and that name"
    for name in ("submitted_by", "texts"):
        if not (about[name] or "").strip():
            yield f"{name}: expected {ABOUT[name]}, found nothing; {_TRIM}"
    try:
        date.fromisoformat(about["submitted"] or "")
    except ValueError:
        yield f"submitted: expected a date, YYYY-MM-DD, found {about['submitted']!r}; {_TRIM}"
    for table, rows in submission.others.items():
        yield f"table {table}: expected no rows, found {rows:,}; {_TRIM}, which leaves them out"
    if not submission.measured:
        yield f"expected rows in {' or '.join(MEASURED)}, found none; {_TRIM}"
    unknown = [name for frame in submission.measured.values() for name in _unknown(frame)]
    if about["exception"] and not unknown:
        yield f"exception: expected none, since no value is missing, found a reason; {_TRIM}"
    if not about["exception"]:
        for name in dict.fromkeys(unknown):
            yield (
                f"column {name}: expected a value in every row, found NULL; {_MEASURE_AGAIN}, or "
                "give the reason with --exception, which the page will show"
            )
    yield from _of_policies(submission)


def _unknown(frame: pd.DataFrame) -> list[str]:
    return [name for name in EXCUSABLE if name not in frame or frame[name].isna().any()]


def _of_policies(submission: Submission) -> Iterator[str]:
    said = submission.policies.set_index(["policy", "policy_code"])["code"]
    columns = ["policy", "policy_code", "kvsim_version"]
    rows = [frame.reindex(columns=columns) for frame in submission.measured.values()]
    rows = pd.concat(rows).drop_duplicates() if rows else pd.DataFrame(columns=columns)
    for policy, code, version in rows.itertuples(index=False, name=None):
        code = UNKNOWN if pd.isna(code) else code
        if (policy, code) not in said.index:
            yield f"policy {policy}: expected a row in submission_policy, found none; {_TRIM}"
            continue
        found = codes.whose(policy, code, None if pd.isna(version) else version)
        declared = said[policy, code]
        if codes.NOT_COMPARED in (found, declared) or found == declared:
            continue
        yield (
            f"policy {policy}: expected policy_code {code or 'NULL'} to be {declared!r}, as the "
            f"file says, found {found!r} in version {version}; {_TRIM}"
        )


def _of_values(table: str, frame: pd.DataFrame, submission: Submission) -> Iterator[str]:
    for name in NEEDED[table]:
        missing = frame[name].isna().sum() if name in frame else len(frame)
        if missing:
            yield (
                f"table {table}: {name}: expected a value in every row, found NULL in {missing:,}; "
                f"{_MEASURE_AGAIN}"
            )
    for version in frame.get("kvsim_version", pd.Series(dtype=object)).dropna().unique():
        matched = codes.VERSION.fullmatch(version)
        if matched is None or matched[2]:
            yield (
                f"table {table}: kvsim_version: expected a release or a clean source revision, as "
                f"0.1.0+g1a2b3c4, found {version!r}; commit your changes, build, and measure again"
            )
    there = set(frame.get("run_id", pd.Series(dtype=object)).dropna())
    for run in sorted(there - set(submission.runs["run_id"])):
        yield f"table {table}: expected run {run} in the table run, found none; {_TRIM}"


def _of_texts(table: str, frame: pd.DataFrame) -> Iterator[str]:
    ids = frame[["model_id", "sequence", "text_id"]].drop_duplicates()
    for name in sorted(set(ids.loc[ids.duplicated(["model_id", "sequence"]), "sequence"])):
        yield (
            f"table {table}: sequence {name}: expected one text_id, found several; give texts "
            "names of their own"
        )
    yield from _of_groups(table, frame)


def _of_groups(table: str, frame: pd.DataFrame) -> Iterator[str]:
    """Policies that are compared have the same texts, and enough of them."""
    of_task = [name for name in ("task", "length_request") if name in frame]
    group = [*MEASURED[table], *of_task]
    whole = frame[frame["policy"] != FULL]  # to which no budget applies
    for key, rows in whole.groupby([*group, "budget_request"], dropna=False):
        place = f"table {table}, {' '.join(str(word) for word in key[1:] if word == word)}"
        texts = rows.groupby("policy")["text_id"].agg(frozenset)
        most = frozenset().union(*texts)
        if len(most) < FEWEST_SAMPLES:
            yield (
                f"{place}: expected {FEWEST_SAMPLES} texts or more, which an interval needs, found "
                f"{len(most)}; measure more texts"
            )
        for policy, ours in rows.groupby("policy"):
            if texts[policy] != most:
                yield (
                    f"{place}: policy {policy}: expected the {len(most)} texts of all policies, "
                    f"found {len(texts[policy])}; measure the others, or leave it out with --where"
                )
            seeds = ours.groupby("text_id")["seed"].agg(frozenset)
            if seeds.nunique() > 1:
                yield (
                    f"{place}: policy {policy}: expected the same seeds for every text, found "
                    "others for some; measure the others, or leave some out with --where"
                )
            if (code := ours.get("policy_code")) is not None and code.nunique() > 1:
                yield (
                    f"{place}: policy {policy}: expected one policy_code, found {code.nunique()}; "
                    "measure again with one version, or leave some rows out with --where"
                )
    if table != "task_answer":
        return
    for key, rows in frame.groupby(group, dropna=False):
        missing = set(rows["text_id"]) - set(rows.loc[rows["policy"] == FULL, "text_id"])
        if missing:
            place = f"table {table}, {' '.join(str(word) for word in key[1:] if word == word)}"
            yield (
                f"{place}: expected rows of the policy {FULL}, which say what the model can do, "
                f"found none for {len(missing)} texts; add {FULL} to --policies"
            )
