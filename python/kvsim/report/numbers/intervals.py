"""95% intervals of what a report shows: means, differences of means, and shares of a gap."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from ...bootstrap import UNIT, Samples

_GROUP = ["policy", "point"]


class Intervals:
    """Statistics in every draw of the bootstrap, [policy and point, draws].

    A draw takes the same units for every policy and point, so a difference of two rows is paired.
    `rows` has the columns policy, point and UNIT; every policy and point has the same units.
    """

    def __init__(self, rows: pd.DataFrame, seed: int = 0):
        self._rows = rows.set_index([*_GROUP, *UNIT])
        self.samples = Samples(rows, seed)
        self._tables: dict[str, pd.DataFrame] = {}

    def mean(self, column: str) -> pd.Series:
        """The mean over samples, by policy and point."""
        return self._statistic(column, self.samples.mean)

    def drawn_mean(self, column: str) -> pd.DataFrame:
        return self._statistic(column, self.samples.drawn_means)

    def drawn_share(self, part: str, whole: str) -> pd.DataFrame:
        """The sum of `part` divided by the sum of `whole`; NaN where that is 0."""
        parts, wholes = (self._statistic(c, self.samples.drawn_sums) for c in (part, whole))
        return parts / wholes.where(wholes > 0)

    def difference(
        self, column: str, first: tuple[str, str], second: tuple[str, str]
    ) -> tuple[float, float, float]:
        """The mean difference of two policies at their points, and the ends of its interval.

        Differences are taken per unit, so that policies that are alike differ by exactly 0.
        """
        table = self._table(column)
        of_units = table.loc[[first]].to_numpy() - table.loc[[second]].to_numpy()
        (low,), (high,) = self.samples.limits(self.samples.drawn_means(of_units))
        return float(self.samples.mean(of_units)[0]), float(low), float(high)

    def limits(self, drawn: pd.DataFrame) -> pd.DataFrame:
        """The intervals of the rows, with columns low and high."""
        low, high = self.samples.limits(drawn.to_numpy())
        return pd.DataFrame({"low": low, "high": high}, index=drawn.index)

    def _statistic(
        self, column: str, of_units: Callable[[np.ndarray], np.ndarray]
    ) -> pd.Series | pd.DataFrame:
        table = self._table(column)
        found = of_units(table.to_numpy())
        return (pd.Series if found.ndim == 1 else pd.DataFrame)(found, index=table.index)

    def _table(self, column: str) -> pd.DataFrame:
        """The values of a column, [policy and point, units]."""
        if column not in self._tables:
            table = self._rows[column].astype(float).unstack(UNIT)
            self._tables[column] = table[self.samples.units]
        return self._tables[column]


def distinguishable(low: float, high: float) -> bool:
    """Whether the interval of a difference excludes 0. False if there is none."""
    return bool(low > 0 or high < 0)


def span(low: float, high: float, digits: int) -> str:
    """An interval in words, as `[−0.01, 0.02]`; empty if there is none."""
    if np.isnan(low) or np.isnan(high):
        return ""
    ends = (f"{round(end, digits) + 0.0:,.{digits}f}" for end in (low, high))
    return f"[{', '.join(ends)}]".replace("-", "−")
