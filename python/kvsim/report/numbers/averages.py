"""Averages the rows of a report over units, layers and texts, with intervals."""

from functools import cached_property

import pandas as pd

from ... import _engine
from ...results import Results
from ..style.labels import allocation_of, base_name
from .intervals import Intervals
from .protocol import most_tokens
from .rows import errors_of_layers, recalls_of

OPTIMAL = "optimal:recent=0,cost=mass,weight=uniform"
MEASURES = [
    "attention_recall",
    "output_error_mean",
    "output_error_p95",
    "output_error_sq",
    "predicted_kl",
    "bound_mean",
    "budget",
    "peak_tokens",
    "cache_bytes",
]
# These have an interval, too: means of columns, and what follows from several columns or rows.
_MEANS = ["attention_recall", "output_error_mean", "output_error_sq", "predicted_kl"]
OF_LAYERS = ("calibrated_kl", "projected_error")  # sums over layers, which the bootstrap draws
WITH_INTERVAL = [*_MEANS, *OF_LAYERS, "miss_rate", "regret", "gap_closed"]
LATER = ["output_error_sq", "predicted_kl"]  # files of earlier versions lack them


class Averages:
    """The means of the measured rows, their intervals, and their differences.

    `measured` are rows of `replay` of the same units for every policy and point, of one protocol;
    `of_regret` the oracles of the attention that is lost; `calibration` has the rows of both loops
    that give the weights of layers, in place of `results`.
    """

    def __init__(
        self,
        results: Results,
        measured: pd.DataFrame,
        protocol: _engine.Protocol,
        of_regret: set[str],
        calibration: Results | None,
    ) -> None:
        self._results, self._measured, self._protocol = results, measured, protocol
        self._of_regret, self._calibration = of_regret, calibration

    @cached_property
    def intervals(self) -> Intervals:
        """The bootstrap over the units of the rows."""
        sequence = ["policy", "point", "trace_id", "sequence"]
        units = self._measured.groupby(sequence)["layer"].transform("size")
        # The mean over the units of a sequence is then the sum.
        return Intervals(self._measured.assign(predicted_kl=self._measured["predicted_kl"] * units))

    def intervals_of(self, measure: str) -> Intervals:
        """The bootstrap over what the measure has values of: layers or units."""
        return self._of_layers.get(measure, self.intervals)

    def sample_name(self, measure: str) -> str:
        """What the samples of a measure are: sequences, layers or units."""
        sampled = self.intervals_of(measure).samples.sampled
        return "layers" if sampled == "units" and measure in OF_LAYERS else sampled

    @cached_property
    def _of_layers(self) -> dict[str, Intervals]:
        """The bootstrap over layers, for those OF_LAYERS that are there."""
        of_measure = {
            measure: errors_of_layers(self._results, self._measured, measure, self._calibration)
            for measure in OF_LAYERS
        }
        return {measure: Intervals(rows) for measure, rows in of_measure.items() if len(rows)}

    @cached_property
    def means(self) -> pd.DataFrame:
        """One row per policy and point, as Comparison says."""
        groups = self._measured.groupby(["policy", "point"])
        means = pd.DataFrame({measure: self.intervals.mean(measure) for measure in MEASURES})
        for measure in OF_LAYERS:
            there = measure in self._of_layers
            means[measure] = self._of_layers[measure].mean(measure) if there else float("nan")
        # Of all pivotal tokens together, not the mean of the shares of units.
        accesses = groups["token_accesses"].sum()
        misses = groups["token_misses"].sum() / accesses.where(accesses > 0)
        means["miss_rate"] = misses.fillna(0.0).where(groups["token_accesses"].count() > 0)
        # `full` and the retrieval bound keep every token, so they do not compete at the budget.
        allowed = most_tokens(self._measured, self._protocol)
        over = (self._measured["peak_tokens"] - allowed).rename("over")
        over = over.groupby([self._measured["policy"], self._measured["point"]])
        split = means.index.get_level_values("policy").map(allocation_of) != ""
        means["holds"] = over.max().where(~split, over.mean()) <= 0
        for statistic, drawn in self._drawn.items():
            if statistic in ("regret", "gap_closed"):
                means[statistic] = self._compared(means["attention_recall"])[statistic]
            limits = self.intervals_of(statistic).limits(drawn.reindex(means.index))
            means[[f"{statistic}_low", f"{statistic}_high"]] = limits
        for measure in OF_LAYERS:
            if measure not in self._of_layers:
                means[[f"{measure}_low", f"{measure}_high"]] = float("nan")
        return means

    @cached_property
    def _drawn(self) -> dict[str, pd.DataFrame]:
        """Each statistic WITH_INTERVAL in every draw, [policy and point, draws]."""
        drawn = {name: self.intervals.drawn_mean(name) for name in _MEANS}
        drawn |= {name: layers.drawn_mean(name) for name, layers in self._of_layers.items()}
        drawn["miss_rate"] = self.intervals.drawn_share("token_misses", "token_accesses")
        return drawn | self._compared(drawn["attention_recall"])

    def _compared(self, recall: pd.Series | pd.DataFrame) -> dict[str, pd.Series | pd.DataFrame]:
        """`regret` and `gap_closed` of mean recalls, or of the recalls of every draw."""
        none = recall * float("nan")
        best = none if self.yardstick is None else recalls_of(recall, self.yardstick)[0]
        window, optimal = recalls_of(recall, "window", OPTIMAL)
        gap = optimal - window
        return {"regret": best - recall, "gap_closed": (recall - window) / gap.where(gap > 0)}

    def difference(
        self, first: str, second: str, point: str, measure: str = "attention_recall"
    ) -> tuple[float, float, float]:
        """How much more the first policy has of the measure than the second, and its interval."""
        intervals = self.intervals_of(measure)
        return intervals.difference(measure, (first, point), (second, point))

    @cached_property
    def yardstick(self) -> str | None:
        """The oracle that regret refers to, without the allocation of its budget."""
        measured = set(self._measured["policy"])
        there = sorted({spec.split("@")[0] for spec in self._of_regret & measured})
        preferred = [s for s in there if s == OPTIMAL] + [
            s for name in ("optimal", "certificate", "topk") for s in there if base_name(s) == name
        ]
        return next(iter(preferred + there), None)
