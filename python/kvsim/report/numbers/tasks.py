"""Answers to tasks: the chosen rows of the table `task_answer`, and the rows of one kind of
question. `scores.py` has their means."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from ...results import Results, ResultsError
from ...results.points import with_points
from ..style import oracle_names, styles
from ..style.labels import base_name, is_named
from .choice import Choice, ChoiceError, one_of
from .rows import given_labels, with_columns
from .scores import Scores

if TYPE_CHECKING:
    from ..style import Style
    from .frames import Comparison

FULL = "full"
# The order of figures: what a cache that many questions share can do comes first.
QUESTIONS = ("unseen", "after", "before", "turns")
_NEEDED = ["model_id", "sequence", "turn", "policy", "budget", "mode", "question", "seed"]
_NEEDED += ["model", "budget_request", "task", "length", "length_request", "depth", "answers"]
_NEEDED += ["answers_right", "contains", "in_view", "most_tokens", "kvsim_version"]


def has_answers(results: Results) -> bool:
    return "task_answer" in results and not results["task_answer"].empty


class Tasks:
    """The chosen rows of the table `task_answer`; a page of them alone asks it what it asks
    Comparison.

    The rows are of one model, mode and seed. A point is a budget as it was asked for; the rows of
    `full`, which evicts nothing, count at every budget. Raises ResultsError without rows,
    ChoiceError if the file lacks a choice.
    """

    def __init__(
        self, results: Results, choice: Choice = Choice(), comparison: Comparison | None = None
    ):
        """`comparison`: the replay on the same page, which says how policies look, and the budget
        if the rows have it."""
        self.results, self.choice, self.notes = results, choice, []
        rows = with_columns(results, "task_answer", _NEEDED)
        if rows.empty:
            raise ResultsError(f"{results.path}: no answers to tasks to show")
        counts = rows["model_id"].value_counts().sort_index()
        self.model_id, *others = counts.sort_values(ascending=False, kind="stable").index
        if others:
            ids = ", ".join(str(other)[:12] for other in others)
            self.notes.append(
                f"Answers are of the model {self.model_id[:12]}, which has the most rows; there "
                f"are also rows of {ids}."
            )
        rows = rows[rows["model_id"] == self.model_id]
        rows = rows.assign(task=rows["task"].where(rows["task"].notna(), "no task"))
        most = rows["most_tokens"].max()
        if rows["most_tokens"].nunique() > 1:
            self.notes.append(
                f"rows with up to {most} generated tokens are shown, those with fewer are not"
            )
        rows = rows[rows["most_tokens"] == most]
        for column, wanted in (("mode", choice.mode), ("seed", choice.seed)):
            is_lacking = comparison is not None and wanted not in set(rows[column])
            wanted = None if is_lacking else wanted
            value = one_of(rows, column, wanted, results.path, self.notes)
            rows = rows[rows[column] == value]
        self.mode, self.seed = str(rows["mode"].iloc[0]), int(rows["seed"].iloc[0])
        everything = sorted(rows["policy"].unique())
        self.oracles = {spec for spec in everything if base_name(spec) in oracle_names()}
        self.styles: dict[str, Style] = (
            styles(everything, self.oracles, given_labels(rows))
            if comparison is None
            else comparison.styles
        )
        self._comparison = comparison
        self.policies = [spec for spec in everything if self._is_wanted(spec, everything)]
        self.policies += [FULL] * (FULL in everything and FULL not in self.policies)
        rows = rows[rows["policy"].isin(self.policies)]
        rows = self._of_sequences(rows.assign(budget_request=_requests(rows)))
        self.rows = with_points(rows)
        evicting = self.rows[self.rows["policy"] != FULL]
        of_budgets = self.rows if evicting.empty else evicting
        budgets = of_budgets.groupby("point")["budget"].mean()
        self.points = budgets.sort_values(kind="stable")
        self.point = self._chosen_point(None if comparison is None else comparison.point)

    @classmethod
    def of(cls, comparison: Comparison) -> Tasks | None:
        """Those of the file of a comparison; None if there are none."""
        if not has_answers(comparison.results):
            return None
        return cls(comparison.results, comparison.choice, comparison)

    @property
    def questions(self) -> list[str]:
        """What the model knew of the question when its context was compressed, as rows say."""
        there = set(self.rows["question"])
        return [*(q for q in QUESTIONS if q in there), *sorted(there - set(QUESTIONS))]

    def rows_of(self, question: str) -> pd.DataFrame:
        """The rows at the chosen budget, those of `full` among them, once per turn; of questions
        that a text was compressed with, that one alone."""
        rows = self.rows[self.rows["question"] == question]
        if question in ("after", "before"):
            rows = rows[rows["in_view"] == 1]
        is_full = rows["policy"] == FULL
        chosen = rows[(rows["point"] == self.point) | is_full]
        return chosen.drop_duplicates(["policy", "sequence", "turn"])

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """The scores of each of `questions`."""
        return {name: Scores(self.rows_of(name), FULL) for name in self.questions}

    @property
    def question(self) -> str:
        """The one of `questions` with the most rows."""
        return max(self.questions, key=lambda name: len(self.rows_of(name)))

    @property
    def legend(self) -> list[Style]:
        """The styles of all policies of the page, oracles last."""
        if self._comparison is not None:
            return self._comparison.legend
        found = [self.styles[spec] for spec in self.policies]
        return sorted(found, key=lambda style: (style.is_oracle, style.spec))

    @property
    def _is_alone(self) -> bool:
        """Whether the page has no replay."""
        return self._comparison is None

    @property
    def sequences(self) -> list[str]:
        return sorted(self.rows["sequence"].unique())

    @property
    def tasks(self) -> list[str]:
        return sorted(self.rows["task"].unique())

    @property
    def budget_name(self) -> str:
        """The chosen budget in figures, as `20% (205 tokens, the mean over texts)`."""
        if self.point.isdigit():
            return f"{self.point} tokens"
        return f"{self.point} ({self.points[self.point]:.4g} tokens, the mean over texts)"

    def _is_wanted(self, spec: str, everything: list[str]) -> bool:
        wanted = self.choice.policies if "all" not in self.choice.policies else ()
        for name in wanted if self._is_alone else ():
            if not any(self._is_named(each, name) for each in everything):
                there = ", ".join(sorted(self.styles[each].label for each in everything))
                raise ChoiceError(
                    f"--policies: expected a name, a label, or a name with some of its parameters, "
                    f"found {name}; there are {there}"
                )
        return not wanted or any(self._is_named(spec, name) for name in wanted)

    def _is_named(self, spec: str, name: str) -> bool:
        return name in (spec, self.styles[spec].label) or is_named(spec, name)

    def _of_sequences(self, rows: pd.DataFrame) -> pd.DataFrame:
        if not self._is_alone or not self.choice.sequences:
            return rows
        for name in self.choice.sequences:
            one_of(rows, "sequence", name, self.results.path, self.notes)
        return rows[rows["sequence"].isin(self.choice.sequences)]

    def _chosen_point(self, preferred: str | None) -> str:
        wanted = preferred or self.choice.budget
        for point, tokens in self.points.items():
            if wanted == point or wanted == f"{tokens:g}":
                return str(point)
        if wanted is None or not self._is_alone:
            return str(self.points.index[-1])
        there = ", ".join(self.points.index)
        raise ChoiceError(f"--budget: {self.results.path} has no {wanted}; it has {there}")


def refuse_options(choice: Choice, results: Results) -> None:
    """Raises ChoiceError for what says nothing where the file has answers to tasks alone."""
    for option in ("trace_id", "trace", "layer", "query_head", "calibration"):
        if getattr(choice, option) is not None:
            name = option.replace("_", "-")
            raise ChoiceError(f"--{name}: {results.path} has answers to tasks alone, no replay")


def _requests(rows: pd.DataFrame) -> pd.Series:
    """The budgets as they were asked for, in tokens where rows do not say."""
    asked = rows["budget_request"].astype(object)  # NULLs alone would be numbers
    return asked.where(asked.notna(), rows["budget"].astype(str))
