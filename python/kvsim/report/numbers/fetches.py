"""What steps fetch from the host: the chosen rows of the table `fetch`, and their means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from ...bootstrap import UNIT
from ...results import Results, ResultsError
from ...results.points import with_points
from ..style.labels import labels
from .choice import Choice, ChoiceError, full_id, one_of
from .intervals import Intervals
from .rows import of_most_common_units, with_columns

if TYPE_CHECKING:
    from .frames import Comparison

MIN = "belady"  # the fewest misses that there are
# Where LRU is not in the file, the first of these stands for what a device can do.
ONLINE = ("lru", "clock", "fifo", "lfu", "mass")
_MEANS = ["resident", "hit_rate", "fetched_bytes_mean", "fetched_bytes_p95", "summary_bytes"]
_MEANS += ["attended_mean", "attention_recall"]
_WITH_INTERVAL = ["hit_rate", "attention_recall", "fetched_bytes_mean"]
_NEEDED = [*UNIT, *_MEANS, "fetched_bytes_max", "trace_id", "select", "replace", "mode", "seed"]
_NEEDED += ["steps", "misses", "trace", "resident_request", "kvsim_version"]
_GROUP = ["select", "replace", "point"]
_SIZES = ("k", "p")  # parameters that say how much a step attends to


@dataclass(frozen=True)
class Family:
    """A selector without the parameter that says how much a step attends to."""

    name: str
    settings: str
    amount: float  # that parameter; NaN without one


def family_of(select: str) -> Family:
    """`quest:k=64,page=16` is quest:page=16 at 64."""
    name, _, settings = select.partition(":")
    pairs = [setting.partition("=") for setting in settings.split(",") if setting]
    # A user's selector may mean something else by these letters.
    sizes = [key for key, _, value in pairs if key in _SIZES and _is_number(value)][:1]
    kept = [f"{key}={value}" for key, _, value in pairs if key not in sizes]
    amount = next((float(value) for key, _, value in pairs if key in sizes), float("nan"))
    return Family(name, ":".join([name, ",".join(kept)]).rstrip(":"), amount)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def has_fetches(results: Results) -> bool:
    return "fetch" in results and not results["fetch"].empty


class Fetches:
    """The chosen rows of the table `fetch`; a page of them alone asks it what it asks Comparison.

    A point is a resident size as it was asked for, of a curve the tokens. `rows` are of selectors,
    replacements and points that have the same units. Raises ResultsError without rows, ChoiceError
    if the file lacks a choice.
    """

    def __init__(
        self, results: Results, choice: Choice = Choice(), trace_ids: list[str] | None = None
    ):
        """`trace_ids`: several traces of one model, in place of the one that is chosen."""
        self.results, self.choice, self.notes = results, choice, []
        rows = with_columns(results, "fetch", _NEEDED)
        if rows.empty:
            raise ResultsError(f"{results.path}: no rows of kvsim fetch to show")
        if trace_ids is None:
            trace_ids = [self._one(rows, "trace_id", full_id(rows, choice.trace_id))]
        rows = rows[rows["trace_id"].isin(trace_ids)]
        self.trace_ids = sorted(rows["trace_id"].unique())
        self.trace_id = trace_ids[0]
        self.mode = self._one(rows, "mode", choice.mode)
        rows = rows[rows["mode"] == self.mode]
        self.seed = int(self._one(rows, "seed", choice.seed))
        rows = rows[rows["seed"] == self.seed]
        for name in choice.sequences:
            self._one(rows, "sequence", name)
        if choice.sequences:
            rows = rows[rows["sequence"].isin(choice.sequences)]
        rows = _with_sizes(rows)
        whole = of_most_common_units(rows)
        out = len(rows[_GROUP].drop_duplicates()) - len(whole[_GROUP].drop_duplicates())
        self.rows = whole
        self.num_units = len(whole[UNIT].drop_duplicates())
        if out:
            self.notes.append(
                "Left out of what is fetched, combinations of selector, replacement and "
                f"sizes with other units than these {self.num_units}: {out}."
            )

    @classmethod
    def of(cls, comparison: Comparison) -> Fetches | None:
        """Those of the traces, texts, mode and seed of a comparison; None if there are none."""
        if not has_fetches(comparison.results):
            return None
        rows = with_columns(comparison.results, "fetch", _NEEDED)
        mode = comparison.protocol.mode
        rows = rows[rows["trace_id"].isin(comparison.trace_ids) & (rows["mode"] == mode)]
        rows = rows[rows["seed"] == comparison.seed]
        there = tuple(name for name in comparison.sequences if name in set(rows["sequence"]))
        if not there:
            return None
        choice = replace(comparison.choice, sequences=there, mode=mode, seed=comparison.seed)
        return cls(comparison.results, choice, comparison.trace_ids)

    @property
    def trace(self) -> str:
        """The trace file, as the first row names it."""
        return str(self.rows["trace"].iloc[0])

    @property
    def sequences(self) -> list[str]:
        return sorted(self.rows["sequence"].unique())

    @cached_property
    def selects(self) -> list[str]:
        """The selectors, those of a family next to each other, the smallest amount first."""
        families = {spec: family_of(spec) for spec in self.rows["select"].unique()}
        return sorted(families, key=lambda s: (families[s].settings, families[s].amount, s))

    @property
    def replaces(self) -> list[str]:
        """The replacements, MIN last."""
        there = set(self.rows["replace"])
        return [name for name in (*ONLINE, MIN) if name in there]

    @property
    def practical(self) -> str | None:
        """The replacement that stands for what a device can do: LRU, where it is there."""
        return next((name for name in self.replaces if name != MIN), None)

    @cached_property
    def labels(self) -> dict[str, str]:
        return labels(self.selects)

    @cached_property
    def intervals(self) -> Intervals:
        """The bootstrap over units or texts, all points together: a draw takes the same ones."""
        return Intervals(self.rows)

    @cached_property
    def means(self) -> pd.DataFrame:
        """A row per selector, replacement and point, by size: the mean of each number over the
        units of a text, then over texts, where there are at least five; `NAME_low`, `NAME_high`.
        `fetched_bytes_max` is the most of all units."""
        first = self.rows.drop_duplicates(["policy", "point"]).set_index(["policy", "point"])
        means = first[["select", "replace"]].join(
            pd.DataFrame({name: self.intervals.mean(name) for name in _MEANS})
        )
        most = self.rows.groupby(["policy", "point"])["fetched_bytes_max"].max()
        means["fetched_bytes_max"] = most
        for name in _WITH_INTERVAL:
            limits = self.intervals.limits(self.intervals.drawn_mean(name))
            means[[f"{name}_low", f"{name}_high"]] = limits
        means = means.reset_index("point").reset_index(drop=True)
        return means.sort_values(["select", "replace", "resident"], ignore_index=True)

    def of_select(self, select: str, replacement: str) -> pd.DataFrame:
        """The means of one line, by size."""
        means = self.means
        return means[(means["select"] == select) & (means["replace"] == replacement)]

    def _one(self, rows: pd.DataFrame, column: str, wanted: object) -> object:
        return one_of(rows, column, wanted, self.results.path, self.notes)


def refuse_options(choice: Choice, results: Results) -> None:
    """Raises ChoiceError for what says nothing where the file has rows of `fetch` alone."""
    for option in ("budget", "policies", "layer", "query_head", "calibration"):
        if getattr(choice, option) not in (None, ()):
            name = option.replace("_", "-")
            raise ChoiceError(
                f"--{name}: {results.path} has rows of kvsim fetch alone, no policies"
            )


def _with_sizes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `point`, and with `policy`, what the bootstrap calls a selector and its
    replacement. A share may be another number of tokens for each selector, so each has its own."""
    # Without any request the column arrives as numbers, which take no text.
    asked = rows["resident_request"].astype(object)
    asked = asked.where(asked.notna(), rows["resident"].astype(str))
    rows = rows.assign(budget=rows["resident"], budget_request=asked)
    found = [with_points(group) for _, group in rows.groupby("select")]
    found = pd.concat(found, ignore_index=True)
    return found.assign(policy=found["select"] + " " + found["replace"])
