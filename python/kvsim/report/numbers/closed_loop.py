"""The closed-loop rows of a report: what the running model did under the policies it shows."""

from __future__ import annotations

from functools import cached_property

import pandas as pd

from ...closed_loop.prediction import SERIOUS, is_plain, rank_correlations
from ...results.points import in_order, with_points
from .frames import Comparison
from .intervals import Intervals
from .rows import of_most_common_units

MEASURES = ["kl_mean", "delta_nll", "answers_share", "kept_overlap"]
_LOOPS = ("imposed", "adaptive")  # of two with equally many rows, the first is shown


class ClosedLoop:
    """The rows of the table `closed_loop` for the traces, texts, mode and seed of a comparison.

    For the curves it is what a Comparison is: `means` has the MEASURES with their intervals over
    texts, `points`, `policies` and so on are those of its rows. The rows are of one loop, the one
    with the most; those of `kept_overlap` are of the adaptive loop. A policy has a mean at a budget
    where it ran on as many texts as the others.
    """

    def __init__(self, comparison: Comparison):
        self.comparison = comparison
        self.styles, self.oracles = comparison.styles, comparison.oracles
        self.notes: list[str] = []
        self._all = self._rows_of(comparison)
        self.loops = [loop for loop in _LOOPS if loop in set(self._all["loop"])]
        counts = self._all["loop"].value_counts()
        self.loop = max(self.loops, key=lambda loop: counts[loop], default="")
        self._tables = {
            measure: self._complete(measure) for measure in MEASURES if not self._all.empty
        }
        self.texts = self._all["sequence"].nunique()
        tokens = self._all.groupby("point")["budget"].mean() if len(self._all) else pd.Series()
        self.points = in_order(tokens)
        self.policies = [p for p in comparison.policies if p in set(self._all["policy"])]

    @property
    def rows(self) -> pd.DataFrame:
        """Those of the loop."""
        return self._all[self._all["loop"] == self.loop]

    @property
    def shown(self) -> list[str]:
        return [spec for spec in self.comparison.shown if spec in self.policies]

    @property
    def point(self) -> str:
        """The budget of the comparison or, without rows there, the largest one."""
        chosen = self.comparison.point
        return chosen if chosen in self.points.index else self.points.index[-1]

    @property
    def legend(self) -> list:
        return self.comparison.legend

    def budget_name(self, point: str) -> str:
        return self.comparison.budget_name(point)

    def has(self, measure: str) -> bool:
        return not self._all.empty and not self._tables[measure].empty

    @cached_property
    def means(self) -> pd.DataFrame:
        """The MEASURES and `NAME_low`, `NAME_high`, indexed by policy and point."""
        keys = pd.MultiIndex.from_product([self.policies, self.points.index])
        means = pd.DataFrame(index=keys.set_names(["policy", "point"]))
        for measure, rows in self._tables.items():
            if rows.empty:
                continue
            intervals = self._intervals[measure]
            drawn = (
                intervals.drawn_share("answers_right", "answers")
                if measure == "answers_share"
                else intervals.drawn_mean(measure)
            )
            means[measure] = self._mean(measure, rows)
            means[[f"{measure}_low", f"{measure}_high"]] = intervals.limits(drawn)
        return means

    def texts_of(self, measure: str) -> int:
        return self._tables[measure]["sequence"].nunique()

    def difference(
        self, first: str, second: str, point: str, measure: str
    ) -> tuple[float, float, float]:
        """How much more the first policy has of the measure than the second, and its interval."""
        return self._intervals[measure].difference(measure, (first, point), (second, point))

    @cached_property
    def _intervals(self) -> dict[str, Intervals]:
        """The bootstrap over texts, of the measures that have rows."""
        return {name: Intervals(rows) for name, rows in self._tables.items() if len(rows)}

    @cached_property
    def correlations(self) -> pd.DataFrame:
        """`rank_correlations` with a column `among`: all policies, and the serious ones."""
        tables = {"replay": self.comparison.rows, "closed_loop": self._all}
        if "layer_error" in self.comparison.results:
            tables["layer_error"] = self.comparison.results["layer_error"]
        frames = [rank_correlations(tables).assign(among="all")]
        serious = [s for s in self.policies if any(is_plain(s, name) for name in SERIOUS)]
        if 2 < len(serious) < len([spec for spec in self.policies if spec != "full"]):
            frames.append(rank_correlations(tables, serious).assign(among="serious"))
        found = pd.concat(frames, ignore_index=True)
        found.attrs["notes"] = frames[0].attrs["notes"]
        return found

    def _rows_of(self, comparison: Comparison) -> pd.DataFrame:
        if "closed_loop" not in comparison.results:
            return pd.DataFrame(columns=["loop", "sequence", "point", "budget", "policy"])
        rows = comparison.results["closed_loop"]
        chosen = (
            rows["trace_id"].isin(comparison.trace_ids)
            & (rows["mode"] == comparison.mode)
            & (rows["seed"] == comparison.seed)
            & rows["sequence"].isin(comparison.sequences)
        )
        rows = rows[chosen]
        unknown = sorted(set(rows["policy"]) - set(comparison.styles))
        if unknown:
            self.notes.append(f"Without a replay, and left out: {', '.join(unknown)}.")
        rows = with_points(rows[rows["policy"].isin(comparison.policies)])
        return rows.assign(layer=0, kv_head=0)  # a text counts as a unit

    def _complete(self, measure: str) -> pd.DataFrame:
        """The rows that have the measure, of policies and points with the same texts."""
        is_adaptive = measure == "kept_overlap"
        rows = self._all[self._all["loop"] == "adaptive"] if is_adaptive else self.rows
        if measure == "answers_share":
            rows = rows[rows["answers"] > 0]
        else:
            rows = rows[rows[measure].notna()]
        return of_most_common_units(rows)

    @staticmethod
    def _mean(measure: str, rows: pd.DataFrame) -> pd.Series:
        groups = rows.groupby(["policy", "point"])
        if measure == "answers_share":
            return groups["answers_right"].sum() / groups["answers"].sum()
        return groups[measure].mean()
