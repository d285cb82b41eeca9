"""Means over texts of all submissions, with the package's own intervals, as rows of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kvsim import _engine
from kvsim.closed_loop.prediction import interval_over_texts, is_plain
from kvsim.report.style.labels import labels
from kvsim.results.points import with_points
from kvsim.results.task_scores import WITHIN_REACH, row_scores

from . import codes
from .submission import UNKNOWN, Submission

REFERENCE = "h2o"
FULL = "full"


@dataclass(frozen=True)
class Estimate:
    """A mean over texts with the ends of its 95% interval; NaN where there is none."""

    mean: float
    low: float
    high: float


NOTHING = Estimate(np.nan, np.nan, np.nan)


def estimate(of_texts: pd.Series) -> Estimate:
    """Of one value per text, by the name of the text."""
    values = of_texts.dropna().sort_index().to_numpy(float)
    if not len(values):
        return NOTHING
    # What sums of another order differ by must not change a printed digit.
    numbers = (values.mean(), *interval_over_texts(values))
    return Estimate(*(float(f"{number:.9g}") for number in numbers))


@dataclass(frozen=True)
class Row:
    """A policy at a budget: where it stands, and what it costs."""

    submission: str
    model_id: str
    model: str
    mode: str
    policy: str  # the canonical spec
    name: str  # short, and different for all specs of the page
    code: str  # of codes.py
    policy_code: str
    is_oracle: bool
    budget: str  # as asked for
    texts: int
    cache_bytes: float  # mean over texts
    bytes_per_token: float  # of a text
    measure: Estimate  # KL, or the score
    difference: Estimate  # to REFERENCE in the same submission
    is_reference: bool
    # Of closed_loop:
    loop: str = ""
    answers: float = 0
    answers_right: float = np.nan
    answers_right_full: float = np.nan
    # Of task_answer:
    question: str = ""
    task: str = ""
    length: str = ""
    of_full: float = np.nan  # the score with the full cache

    @property
    def verdict(self) -> str:
        """ "better" or "worse" than the reference where the interval excludes 0, else ""."""
        less, more = ("worse", "better") if self.task else ("better", "worse")
        return less if self.difference.high < 0 else more if self.difference.low > 0 else ""

    @property
    def in_reach(self) -> bool:
        return not self.of_full < WITHIN_REACH


def kl_rows(submissions: Iterable[Submission]) -> list[Row]:
    """The rows of closed_loop by model, loop, mode and budget, the least KL first."""
    return _rows(submissions, "closed_loop", ["loop"])


def task_rows(submissions: Iterable[Submission]) -> list[Row]:
    """The rows of task_answer by model, task, length, question, mode and budget, the best first."""
    return _rows(submissions, "task_answer", ["task", "length_shown", "question"])


def _rows(submissions: Iterable[Submission], table: str, group: list[str]) -> list[Row]:
    prepare = _with_score if table == "task_answer" else _with_kl
    frames = [
        prepare(with_points(each.measured[table])).assign(submission=each.name)
        for each in submissions
        if table in each.measured
    ]
    if not frames:
        return []
    said = {each.name: each.policies for each in submissions}
    sign = -1 if table == "task_answer" else 1
    group = ["model_id", *group, "mode"]
    found = []
    for key, rows in pd.concat(frames).groupby(group, sort=True):
        for point in _in_order(rows):
            at_point = []
            for name, ours in rows[rows["point"] == point].groupby("submission"):
                full = rows[(rows["submission"] == name) & (rows["policy"] == FULL)]
                of_full = _of_texts(full, "measured").mean()
                named = dict(zip(group, key), submission=name, budget=point, of_full=of_full)
                at_point += _of_point(ours, named, said[name])
            found += sorted(at_point, key=lambda row: (sign * row.measure.mean, row.policy))
    return _named(found)


def _in_order(rows: pd.DataFrame) -> list[str]:
    """The budgets as asked for, the least first."""
    means = rows.groupby("point")[["budget"]].mean().reset_index()
    return list(means.sort_values(["budget", "point"])["point"])


def _with_kl(frame: pd.DataFrame) -> pd.DataFrame:
    tokens = frame["steps"] + frame["prompt_length"]
    return frame.assign(measured=frame["kl_mean"], tokens=tokens)


def _with_score(frame: pd.DataFrame) -> pd.DataFrame:
    shown = frame["length"].groupby(frame["task"]).transform("mean").round()
    if "length_request" in frame:
        shown = frame["length_request"].astype(float).fillna(shown)
    return frame.assign(
        measured=row_scores(frame), tokens=frame["length"], length_shown=shown.astype(int)
    )


def _of_point(rows: pd.DataFrame, named: dict, policies: pd.DataFrame) -> Iterator[Row]:
    """The rows of one submission at one budget; `named` has what they have in common."""
    reference = _reference(rows["policy"].unique())
    theirs = _of_texts(rows[rows["policy"] == reference], "measured")
    said = policies.set_index(["policy", "policy_code"])
    common = {name: named[name] for name in ("loop", "question", "task") if name in named}
    for policy, ours in rows.groupby("policy"):
        values, size = _of_texts(ours, "measured"), _of_texts(ours, "cache_bytes")
        policy_code = ours["policy_code"].iloc[0]
        policy_code = UNKNOWN if pd.isna(policy_code) else policy_code
        about = said.loc[(policy, policy_code)]
        if "loop" in named:
            names = ("answers", "answers_right", "answers_right_full")
            more = {name: _of_texts(ours, name).sum(min_count=1) for name in names}
        else:
            more = {"length": str(named["length_shown"]), "of_full": named["of_full"]}
        yield Row(
            submission=named["submission"],
            model_id=named["model_id"],
            model=ours["model"].iloc[0],
            mode=named["mode"],
            policy=policy,
            name=policy,
            code=about["code"],
            policy_code=policy_code,
            is_oracle=bool(about["is_oracle"]),
            budget=named["budget"],
            texts=len(values),
            cache_bytes=size.mean(),
            bytes_per_token=(size / _of_texts(ours, "tokens")).mean(),
            measure=estimate(values),
            difference=NOTHING if policy == reference else estimate(values - theirs),
            is_reference=policy == reference,
            **common,
            **more,
        )


def _reference(policies: Iterable[str]) -> str | None:
    """The plain policy of that name; of several, the one with the parameters of today's default."""
    plain = [spec for spec in policies if is_plain(spec, REFERENCE)]
    if len(plain) == 1:
        return plain[0]
    default = _engine.specs(REFERENCE, "uniform")[0]["text"]
    return default if default in plain else None


def _of_texts(rows: pd.DataFrame, column: str) -> pd.Series:
    """One value per text: the mean over its seeds and turns."""
    return rows.groupby("sequence")[column].mean().astype(float)


def _named(rows: list[Row]) -> list[Row]:
    short = labels(list(dict.fromkeys(row.policy for row in rows)))
    return [replace(row, name=short[row.policy]) for row in rows]


def marked(row: Row) -> str:
    """What the page adds to the name of a policy; "" for code of kvsim."""
    words = {codes.OWN: "own code", codes.NOT_COMPARED: "code not compared"}
    words[codes.UNKNOWN] = "code unknown"
    return ", ".join([*(["oracle"] if row.is_oracle else []), *filter(None, [words.get(row.code)])])
