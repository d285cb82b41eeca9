"""Selects the rows of a result file that a report shows."""

from functools import cached_property

import pandas as pd

from ... import _engine
from ...bootstrap import UNIT
from ...results import Results, ResultsError, load
from ...results.points import bytes_of, in_order, with_points
from ..style import Style, oracle_names, styles
from ..style.labels import allocation_of, base_name, is_named
from .averages import LATER, MEASURES, Averages
from .choice import Choice, ChoiceError, full_id, one_of
from .intervals import Intervals
from .ranking import RANKINGS, Ranking
from .rows import (
    answering,
    first_traces,
    given_labels,
    most_common_units,
    units_of,
    with_columns,
)
from .selection import select

_NEEDED = [*UNIT, *(name for name in MEASURES if name not in LATER)]
_NEEDED += ["trace_id", "policy", "mode", "seed", "trace", "budget_request"]
_NEEDED += ["token_accesses", "token_misses", "evictions", "steps", "kvsim_version"]


class Comparison:
    """The chosen rows of the table `replay`.

    A unit is one KV head of one layer of one sequence. The sequences are of one trace, or of all
    traces of one model that the closed loop ran on. A point is a budget as the sweep requested
    it. `means` has one row per policy and point:
    - the MEASURES, each the mean over the units of a sequence, then over sequences (over all units
      where there are fewer than five sequences, as `kvsim compare` does); `predicted_kl`, in nats
      per token, is of all units of a sequence together;
    - `projected_error` and, where the running model gives weights, `calibrated_kl`: sums over the
      layers of a sequence, with layers in the place of units;
    - `miss_rate`, the share of the pivotal tokens of all units together that is not in the cache;
    - `regret` and `gap_closed`, computed from the mean recalls;
    - `NAME_low` and `NAME_high` for each name in WITH_INTERVAL: its 95% interval;
    - `holds`, whether no unit held more tokens than the protocol allows at its budget. If the
      policy splits the budget over layers and heads, the mean over units has to hold.

    Raises ChoiceError if the file lacks a choice, ResultsError if it has no rows.
    """

    def __init__(self, results: Results, choice: Choice = Choice()):
        if "replay" not in results or results.replay.empty:
            raise ResultsError(
                f"{results.path}: no rows to show; what would write some: "
                f"kvsim sweep TRACE --policies 'all;oracles' --budgets 5%,10%,20% -o {results.path}"
            )
        self.results, self.choice, self.notes = results, choice, []
        rows = with_columns(results, "replay", _NEEDED)
        rows = rows.assign(**{name: float("nan") for name in LATER if name not in rows})
        everything = sorted(rows["policy"].unique())
        of_regret: set[str] = set()  # oracles of the attention that is lost
        if "regret" in results:
            of_regret = set(with_columns(results, "regret", ["oracle"])["oracle"])
        asked = answering(results)
        drawn = sorted({*everything, *asked["policy"]})
        self.oracles = of_regret | {spec for spec in drawn if base_name(spec) in oracle_names()}
        labels = given_labels(asked) | given_labels(rows)
        self.styles: dict[str, Style] = styles(drawn, self.oracles, labels)
        # The full cache says which tasks are in reach, whatever the choice names.
        self._answering = {s for s in asked["policy"] if s == "full" or self._is_wanted(s)}

        first = first_traces(results, rows) if choice.trace_id is None else rows["trace_id"]
        self.trace_id = self._one(
            rows.assign(trace_id=first), "trace_id", full_id(rows, choice.trace_id)
        )
        rows = rows[first == self.trace_id]
        self.trace_ids = sorted(rows["trace_id"].unique())
        self.mode = self._one(rows, "mode", choice.mode)
        self.protocol = _engine.Protocol.of_name(self.mode)
        rows = rows[rows["mode"] == self.mode]
        self.seed = int(self._one(rows, "seed", choice.seed))
        rows = rows[rows["seed"] == self.seed]
        rows = with_points(self._of_sequences(rows))
        self.rows = self._complete(rows[rows["policy"].isin(self._wanted(everything))])
        measured = self._of_the_same_units(rows)  # includes oracles that are not shown
        weights = None if choice.calibration is None else load(choice.calibration)
        self._averages = Averages(results, measured, self.protocol, of_regret, weights)
        self.points = in_order(self.rows.groupby("point")["budget"].mean())
        self.point = self._chosen_point()
        self.policies = [spec for spec in everything if spec in set(self.rows["policy"])]
        self._note_ties()

    @cached_property
    def means(self) -> pd.DataFrame:
        """The means of the shown policies, indexed by policy and point, in this order."""
        means = self._averages.means
        shown = pd.MultiIndex.from_frame(self.rows[["policy", "point"]].drop_duplicates())
        places = {point: place for place, point in enumerate(self.points.index)}
        order = [means.index.get_level_values(0), means.index.get_level_values(1).map(places)]
        means = means.iloc[pd.MultiIndex.from_arrays(order).argsort()]
        return means[means.index.isin(shown)]

    @cached_property
    def shown(self) -> list[str]:
        """The policies that the figures draw."""
        return select(self)

    @property
    def legend(self) -> list[Style]:
        """The styles of all policies of the report, those at tasks among them, oracles last."""
        found = [self.styles[spec] for spec in {*self.policies, *self._answering}]
        return sorted(found, key=lambda style: (style.is_oracle, style.spec))

    @property
    def intervals(self) -> Intervals:
        """The bootstrap over the units of the shown rows."""
        return self._averages.intervals

    def intervals_of(self, measure: str) -> Intervals:
        """The bootstrap over what the measure has values of: layers or units."""
        return self._averages.intervals_of(measure)

    def sample_name(self, measure: str) -> str:
        """What the samples of a measure are: sequences, layers or units."""
        return self._averages.sample_name(measure)

    def difference(
        self, first: str, second: str, point: str, measure: str = "attention_recall"
    ) -> tuple[float, float, float]:
        """How much more the first policy has of the measure than the second, and its interval."""
        return self._averages.difference(first, second, point, measure)

    @property
    def yardstick(self) -> str | None:
        """The oracle that regret refers to, without the allocation of its budget."""
        return self._averages.yardstick

    @cached_property
    def ranking(self) -> Ranking:
        """The measure that ranks policies: the first of RANKINGS of which all have a value."""
        means = self.means.xs(self.point, level="point")
        return next((r for r in RANKINGS if means[r.measure].notna().all()), RANKINGS[-1])

    def has(self, measure: str) -> bool:
        """Whether a policy that is shown has a mean of the measure."""
        return bool(self.means[measure].notna().any())

    @property
    def has_reference(self) -> bool:
        """Whether the rows compare with the full attention."""
        return bool(self.rows["attention_recall"].notna().any())

    @property
    def splits(self) -> bool:
        """Whether a shown policy splits its budget over layers or heads."""
        return any(map(allocation_of, self.policies))

    def at(self, point: str) -> pd.DataFrame:
        """`means` at one budget, indexed by policy: the best one of the ranking first.

        Where recall ranks, the least regret comes first or, without an oracle, the highest recall.
        """
        rows = self.means.xs(point, level="point")
        rows = rows.sort_values("attention_recall", ascending=False, kind="stable")
        measure = self.ranking.measure if self.ranking.is_loss else "regret"
        return rows.sort_values(measure, kind="stable")

    def budget_name(self, point: str) -> str:
        """The name of a budget in figures, as `102 tokens (20%)`; of a size, `64KiB`."""
        if bytes_of(point) is not None:
            return point
        tokens = self.points[point]
        if self.rows[self.rows["point"] == point]["budget"].nunique() > 1:
            return f"{point} ({tokens:.4g} tokens, the mean over sequences)"
        return f"{tokens:g} tokens" if point.isdigit() else f"{tokens:.4g} tokens ({point})"

    def analysis(self, table: str, columns: list[str]) -> pd.DataFrame | None:
        """The rows of an analysis for the same trace and sequences, or None if there are none.

        Raises ResultsError if the table lacks one of the columns.
        """
        if table not in self.results:
            return None
        rows = with_columns(self.results, table, ["trace_id", "sequence", *columns])
        chosen = rows["trace_id"].isin(self.trace_ids) & rows["sequence"].isin(self.sequences)
        return rows[chosen] if chosen.any() else None

    @property
    def sequences(self) -> list[str]:
        return sorted(self.rows["sequence"].unique())

    @property
    def trace(self) -> str:
        """The trace file, as named for the sweep; TRACE where there are several."""
        named = self.rows["trace"].unique()
        return str(named[0]) if len(named) == 1 else "TRACE"

    def _one(self, rows: pd.DataFrame, column: str, wanted: object) -> object:
        return one_of(rows, column, wanted, self.results.path, self.notes)

    def _of_sequences(self, rows: pd.DataFrame) -> pd.DataFrame:
        for name in self.choice.sequences:
            self._one(rows, "sequence", name)
        wanted = self.choice.sequences or tuple(rows["sequence"].unique())
        return rows[rows["sequence"].isin(wanted)]

    def _wanted(self, specs: list[str]) -> list[str]:
        for name in self._named:
            if not any(self._is_named(spec, name) for spec in specs):
                there = ", ".join(sorted({self.styles[spec].label for spec in specs}))
                raise ChoiceError(
                    f"--policies: expected a name, a label, or a name with some of its parameters, "
                    f"found {name}; there are {there}"
                )
        return [spec for spec in specs if self._is_wanted(spec)]

    @property
    def _named(self) -> tuple[str, ...]:
        """The policies that the choice names; empty where all are to be shown."""
        return self.choice.policies if "all" not in self.choice.policies else ()

    def _is_wanted(self, spec: str) -> bool:
        return not self._named or any(self._is_named(spec, name) for name in self._named)

    def _is_named(self, spec: str, name: str) -> bool:
        return name in (spec, self.styles[spec].label) or is_named(spec, name)

    def _note_ties(self) -> None:
        if "ties" not in self.rows:  # a file of an earlier version
            return
        sums = self.rows.groupby("policy")[["ties", "evictions"]].sum()
        tied = sums.index[sums["ties"] > 0.5 * sums["evictions"]]
        if len(tied):
            self.notes.append(
                "Most evictions are decided by ties, that is by the order of tokens with equal "
                f"scores: {', '.join(self.styles[spec].label for spec in tied)}."
            )

    def _complete(self, rows: pd.DataFrame) -> pd.DataFrame:
        # A mean over other units covers other heads and cannot be compared.
        sets = units_of(rows)
        units = most_common_units(sets)
        self.num_units = len(units)
        whole = [key for key, found in sets.items() if found == units]
        other = sorted(f"{self.styles[s].label} at {p}" for s, p in sets if (s, p) not in whole)
        if other:
            shown = ", ".join(other[:6]) + (f" and {len(other) - 6} more" if len(other) > 6 else "")
            self.notes.append(
                f"Left out, because they do not have the same {self.num_units} units: {shown}."
            )
        chosen = pd.MultiIndex.from_frame(rows[["policy", "point"]]).isin(whole)
        if not chosen.any():
            raise ChoiceError(f"{self.results.path} has no rows of that choice")
        return rows[chosen]

    def _of_the_same_units(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of all policies that have the units and points of the shown ones."""
        units = pd.MultiIndex.from_frame(self.rows[UNIT].drop_duplicates())
        rows = rows[pd.MultiIndex.from_frame(rows[UNIT]).isin(units)]
        rows = rows[rows["point"].isin(self.rows["point"])]
        sizes = rows.groupby(["policy", "point"])["layer"].transform("size")
        return rows[sizes == self.num_units]

    def _chosen_point(self) -> str:
        wanted = self.choice.budget
        if wanted is None:
            return self.points.index[-1]
        for point, tokens in self.points.items():
            if wanted == point or wanted == f"{tokens:g}":
                return point
        there = ", ".join(self.points.index)
        raise ChoiceError(f"--budget: {self.results.path} has no {wanted}; it has {there}")
