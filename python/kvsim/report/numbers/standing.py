"""How policies stand at the chosen budget, and what may be said of the best one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import pandas as pd

from ...bootstrap import FEWEST_SAMPLES
from .closed_loop import ClosedLoop
from .frames import Comparison
from .intervals import distinguishable
from .ranking import Ranking
from .selection import best_of
from .tasks import FULL, Tasks

if TYPE_CHECKING:
    from ..style import Style

MOST_WORDS = 12  # of a finding
_MOST_NAMES = 3
OF_TASKS = Ranking("score", "mean score")
OF_THE_MODEL = Ranking("kl_mean", "KL of the running model")


@dataclass(frozen=True)
class Standing:
    """Policies at one budget by the measure that ranks them, the best first.

    `rows` has the columns value, low and high, its 95% interval, and is_rival: whether the policy
    competes, that is holds the budget and is no oracle. `difference` says how much more the first
    policy has of the measure than the second, and the interval of that.
    """

    ranking: Ranking
    budget: str  # as it was asked for
    rows: pd.DataFrame
    shown: list[str]  # the policies of a figure
    styles: Mapping[str, Style]
    difference: Callable[[str, str], tuple[float, float, float]]
    samples: int  # that intervals draw
    sampled: str  # what they are

    @property
    def rivals(self) -> list[str]:
        return list(self.rows.index[self.rows["is_rival"]])

    @property
    def best(self) -> str:
        """The first policy that competes."""
        return self.rivals[0]

    @property
    def is_enough(self) -> bool:
        """Whether there are enough samples to call a policy best."""
        return self.samples >= FEWEST_SAMPLES

    def is_apart(self, spec: str) -> bool:
        """Whether a policy is distinguishable from the best one."""
        return self.is_enough and distinguishable(*self.difference(spec, self.best)[1:])

    @cached_property
    def alike(self) -> list[str]:
        """The best policy and those that compete and are not distinguishable from it."""
        return [spec for spec in self.rivals if spec == self.best or not self.is_apart(spec)]

    @cached_property
    def finding(self) -> str:
        """What the numbers say, in at most MOST_WORDS words.

        It names a winner only if that is distinguishable from every other policy, and none from too
        few samples, of which the intervals are too short.
        """
        at = f"at {self.budget} tokens" if self.budget.isdigit() else f"at {self.budget}"
        if len(self.rivals) == 1:
            return self._short(f"{self._label(self.best)} is the only policy {at}")
        if self.samples == 1:
            return f"One {self.sampled[:-1]} gives no intervals: no best policy {at}"
        if not self.is_enough:
            return f"Too few {self.sampled} ({self.samples}) to call one policy best {at}"
        if len(self.alike) > 1:
            none = f"No single best policy {at}"
            return self._short(*(f"{none}: {text}" for text in self._names()), none)
        label = self._label(self.best)
        has = f"{label} has the {self.ranking.best}"
        return self._short(f"{has} {at}", has, f"{label} is best {at}")

    def _names(self) -> list[str]:
        """Those that are alike: as many names as a reader takes in, then fewer."""
        names = [self._label(spec) for spec in self.alike]
        shown = range(min(_MOST_NAMES, len(names)), 0, -1)
        return [_listed(names[:count], len(names) - count) for count in shown]

    def _label(self, spec: str) -> str:
        return self.styles[spec].label

    @staticmethod
    def _short(*sentences: str) -> str:
        """The first sentence that is short enough, or the last one."""
        found = (text for text in sentences if len(text.split()) <= MOST_WORDS)
        return next(found, sentences[-1])


def _listed(names: list[str], more: int) -> str:
    return ", ".join(names) + (f" and {more} more" if more else "")


def of_replay(comparison: Comparison) -> Standing | None:
    """By the measure of the replay that ranks; None where nothing that competes has it."""
    ranking, point = comparison.ranking, comparison.point
    rows = _rows(comparison.at(point), ranking, comparison)
    if not rows["is_rival"].any():
        return None
    shown = [spec for spec in rows.index if spec in comparison.shown]
    return Standing(
        ranking, point, rows, shown, comparison.styles,
        cache(lambda first, second: comparison.difference(first, second, point, ranking.measure)),
        comparison.intervals_of(ranking.measure).samples.count,
        comparison.sample_name(ranking.measure),
    )  # fmt: skip


def of_model(closed: ClosedLoop) -> Standing | None:
    """By the KL of the running model; None where it has no rows at the budget of the report."""
    comparison, measure = closed.comparison, OF_THE_MODEL.measure
    point = comparison.point
    if point not in closed.points.index or not closed.has(measure):
        return None
    rows = _rows(closed.means.xs(point, level="point"), OF_THE_MODEL, comparison)
    if not rows["is_rival"].any():
        return None
    shown = list(rows.index)
    if not comparison.choice.policies:
        shown = best_of(shown, rows["is_rival"])
    return Standing(
        OF_THE_MODEL, point, rows, shown, comparison.styles,
        cache(lambda first, second: closed.difference(first, second, point, measure)),
        closed.texts_of(measure), "texts",
    )  # fmt: skip


def of_tasks(tasks: Tasks) -> Standing | None:
    """By the mean score over tasks in reach; None where nothing that competes has one."""
    scores = tasks.scores[tasks.question]
    rows = scores.means.rename(columns={"score": "value"})
    rows = rows.assign(is_rival=[spec not in {FULL, *tasks.oracles} for spec in rows.index])
    if not rows["is_rival"].any():
        return None
    shown = list(rows.index)
    if not tasks.choice.policies:
        shown = best_of(shown, rows["is_rival"])
    return Standing(
        OF_TASKS, tasks.point, rows, shown, tasks.styles, cache(scores.difference), scores.samples,
        "texts",
    )  # fmt: skip


def _rows(means: pd.DataFrame, ranking: Ranking, comparison: Comparison) -> pd.DataFrame:
    """Those of `Standing`, of means at one budget by policy."""
    measure = ranking.measure
    names = {measure: "value", f"{measure}_low": "low", f"{measure}_high": "high"}
    rows = means[[*names]].rename(columns=names).dropna(subset="value")
    rows = rows.sort_values("value", ascending=ranking.is_loss, kind="stable")
    holds = comparison.at(comparison.point)["holds"]
    competing = set(holds.index[holds]) - comparison.oracles
    return rows.assign(is_rival=[spec in competing for spec in rows.index])
