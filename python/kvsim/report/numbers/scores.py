"""The scores of policies at tasks: means over texts and over tasks, with 95% intervals."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from ...bootstrap import FEWEST_SAMPLES
from ...results.task_scores import WITHIN_REACH, row_scores
from .intervals import Intervals
from .rows import of_most_common_units

MOST_LENGTHS, MOST_DEPTHS = 8, 11  # of a map of needles; more are grouped
_OF_TEXT = ["task", "depth", "length", "length_request"]


class Scores:
    """The scores of rows of one kind of question, at one budget.

    The score of a row is that of row_scores(). That of a text is the mean over its turns,
    that of a task the mean over its texts. A policy has a score at a task where it answered the
    same texts and turns as the others; it has a mean over tasks where it has all scores.
    """

    def __init__(self, rows: pd.DataFrame, full: str):
        """`rows`: of `task_answer`, one per policy, sequence and turn. `full`: the policy that
        evicts nothing, whose scores say which tasks are in reach."""
        rows = rows.assign(score=row_scores(rows))
        self.generated = float(rows["contains"].notna().mean())  # the share of rows with texts
        self.without_score = int(rows["score"].isna().sum())
        self._full = full
        self.texts = _texts(rows[rows["score"].notna()])
        parts = [of_most_common_units(part) for _, part in self.texts.groupby("task")]
        there = self.texts[["policy", "task"]].drop_duplicates()
        self.texts = pd.concat(parts) if parts else self.texts
        kept = self.texts[["policy", "task"]].drop_duplicates()
        self.left_out = sorted(
            set(there.itertuples(index=False, name=None))
            - set(kept.itertuples(index=False, name=None))
        )
        self.tasks = sorted(self.texts["task"].unique())

    @cached_property
    def _intervals(self) -> dict[str, Intervals]:
        """By task. Each has its own draws, as texts of several tasks have nothing in common."""
        parts = self.texts.groupby("task")
        return {
            task: Intervals(parts.get_group(task), seed) for seed, task in enumerate(self.tasks)
        }

    @cached_property
    def _drawn(self) -> dict[str, pd.DataFrame]:
        return {
            task: _by_policy(each.drawn_mean("score")) for task, each in self._intervals.items()
        }

    def texts_of(self, task: str) -> int:
        return self._intervals[task].samples.count

    @cached_property
    def of_tasks(self) -> pd.DataFrame:
        """By policy and task: score, low and high, its interval over texts, NaN for fewer than
        FEWEST_SAMPLES."""
        found = []
        for task, intervals in self._intervals.items():
            means = _by_policy(intervals.mean("score")).rename("score").to_frame()
            ends = _by_policy(intervals.limits(intervals.drawn_mean("score")))
            enough = self.texts_of(task) >= FEWEST_SAMPLES
            found.append(means.join(ends if enough else ends * float("nan")).assign(task=task))
        frame = (
            pd.concat(found) if found else pd.DataFrame(columns=["score", "low", "high", "task"])
        )
        return frame.set_index("task", append=True)

    @cached_property
    def below(self) -> list[str]:
        """The tasks below the model's reach: those that it does not do with the full cache."""
        if not self.has_full:
            return []
        of_full = self.of_tasks["score"].xs(self._full, level="policy")
        return [task for task in self.tasks if of_full.get(task, 1.0) < WITHIN_REACH]

    @property
    def has_full(self) -> bool:
        return self._full in set(self.texts["policy"])

    @property
    def in_reach(self) -> list[str]:
        return [task for task in self.tasks if task not in self.below]

    @cached_property
    def means(self) -> pd.DataFrame:
        """By policy, the best first: the mean over the tasks in reach, low and high. Its draws are
        of the texts of each task; NaN where a task has fewer than FEWEST_SAMPLES."""
        drawn = self._drawn_means
        score = self.of_tasks["score"].unstack("task").reindex(columns=self.in_reach)
        means = score.loc[drawn.index].mean(axis=1).rename("score").to_frame()
        low, high = np.percentile(drawn, [2.5, 97.5], axis=1) if len(drawn) else ([], [])
        enough = self.samples >= FEWEST_SAMPLES
        means = means.assign(low=low if enough else np.nan, high=high if enough else np.nan)
        return means.sort_values("score", ascending=False, kind="stable")

    @property
    def samples(self) -> int:
        """The texts of the task in reach that has the fewest."""
        return min((self.texts_of(task) for task in self.in_reach), default=0)

    @cached_property
    def _drawn_means(self) -> pd.DataFrame:
        """The mean over tasks in every draw, of the policies with all of them."""
        tables = [self._drawn[task] for task in self.in_reach]
        if not tables:
            return pd.DataFrame()
        every = set.intersection(*(set(table.index) for table in tables))
        rows = [spec for spec in tables[0].index if spec in every]
        return sum(table.loc[rows] for table in tables) / len(tables)

    def difference(self, first: str, second: str) -> tuple[float, float, float]:
        """How much more the first policy has of the mean over tasks, and the interval of that."""
        drawn = self._drawn_means
        low, high = np.percentile(drawn.loc[first] - drawn.loc[second], [2.5, 97.5])
        more = self.means["score"][first] - self.means["score"][second]
        return float(more), float(low), float(high)

    @cached_property
    def needles(self) -> pd.DataFrame:
        """The scores by policy, length and depth of the needle: the mean over texts with a depth,
        of tasks in reach. A length is that which was asked for, else that of the context in tokens;
        many are grouped."""
        rows = self.texts[self.texts["depth"].notna() & self.texts["task"].isin(self.in_reach)]
        if rows.empty:
            return pd.DataFrame(columns=["policy", "length", "depth", "score", "task"])
        asked = rows["length_request"]
        length = asked if asked.notna().all() else rows["length"]
        rows = rows.assign(
            length=_grouped(length, MOST_LENGTHS), depth=_grouped(rows["depth"], MOST_DEPTHS)
        )
        return rows[["policy", "length", "depth", "score", "task"]]


def _texts(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per policy and text that has all turns which a policy answered of the text."""
    groups = rows.groupby(["policy", "sequence"])
    found = groups["score"].mean().to_frame()
    found = found.join(groups[_OF_TEXT].first()).assign(turns=groups["turn"].nunique())
    found = found.reset_index()
    whole = found["turns"] == found.groupby("sequence")["turns"].transform("max")
    return found[whole].assign(point="", layer=0, kv_head=0)  # a text counts as a unit


def _by_policy(found: pd.DataFrame | pd.Series) -> pd.DataFrame | pd.Series:
    return found.droplevel("point")


def _grouped(values: pd.Series, most: int) -> pd.Series:
    """The values, or the middles of `most` equal parts of their range where there are more."""
    if values.nunique() <= most:
        return values
    edges = np.linspace(values.min(), values.max(), most + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    return pd.Series(middles[np.clip(np.digitize(values, edges) - 1, 0, most - 1)], values.index)
