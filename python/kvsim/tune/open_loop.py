"""What specs lose in a replay of traces: one number per spec and text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..results import load
from ..verbs.sweep import sweep
from .texts import Text

if TYPE_CHECKING:
    import pandas as pd

    from ..trace import Trace

# From the best predictor of what a model loses; how to join the numbers of a text's units.
OBJECTIVES = {
    "predicted_kl": "sum",
    "projected_error": "sum",
    "output_error_sq": "mean",
    "attention_loss": "mean",
}
_ROW = ["trace_id", "sequence", "policy", "budget"]
_KEY = ["trace_id", "sequence", "layer", "policy", "budget", "mode", "seed"]


class OpenLoop:
    """Replays of the texts of some traces, in one result file."""

    def __init__(
        self, traces: Sequence[Trace], options: Mapping[str, Any], output: Path, progress: Any
    ) -> None:
        self.traces, self._options = list(traces), dict(options)
        self._output, self._progress = output, progress
        self._trace_of: dict[str, Trace] = {}
        for trace in self.traces:
            for sequence in trace.sequences:
                if sequence.name in self._trace_of:
                    raise UsageError(f"traces: two texts are named {sequence.name}; rename one")
                self._trace_of[sequence.name] = trace

    def trace_ids(self) -> list[str]:
        return [trace.trace_id for trace in self.traces]

    def texts(self) -> list[Text]:
        return [Text(name, _text_id(trace, name)) for name, trace in self._trace_of.items()]

    def rows(
        self, specs: Sequence[str], budgets: Sequence[str], names: Sequence[str]
    ) -> pd.DataFrame:
        """A row per spec, budget and text: `budget` in tokens, and every objective that the traces
        hold."""
        import pandas as pd

        found = []
        for trace in self.traces:
            own = [name for name in names if self._trace_of[name] is trace]
            if own and specs:
                found += [self._rows(trace, specs, budget, own) for budget in budgets]
        return pd.concat(found, ignore_index=True)

    def probe(self, spec: str, budget: str, names: Sequence[str]) -> None:
        """Replays a spec anew, whatever the result file has. Raises what sweep raises."""
        for trace in self.traces:
            own = [name for name in names if self._trace_of[name] is trace]
            if own:
                sweep(trace, [spec], [budget], sequences=own, progress=False, **self._options)

    def _rows(
        self, trace: Trace, specs: Sequence[str], budget: str, names: Sequence[str]
    ) -> pd.DataFrame:
        units = sweep(
            trace, list(specs), [budget], sequences=list(names), output=self._output,
            progress=self._progress, **self._options,
        )  # fmt: skip
        # A sum over no value is no value.
        joins = {name: "mean" if how == "mean" else _whole_sum for name, how in OBJECTIVES.items()}
        joins = {name: how for name, how in joins.items() if name in units}
        rows = units.groupby(_ROW, sort=False).agg(joins).reset_index()
        rows["projected_error"] = self._projected(units, rows)
        return rows.assign(budget_request=budget)

    def _projected(self, units: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
        """Of each row, summed over layers; NaN where traces have no output projections."""
        results = load(self._output)
        if "layer_error" not in results:
            return np.full(len(rows), np.nan)
        asked = units[_KEY].drop_duplicates()
        layers = asked.merge(results["layer_error"], on=_KEY)
        sums = layers.groupby(_ROW)["projected_error"].agg(_whole_sum).rename("sum").reset_index()
        return rows.merge(sums, on=_ROW, how="left")["sum"].to_numpy()


def objective_of(rows: pd.DataFrame, wanted: str | None) -> str:
    """The objective that all rows have: the wanted one, or else the best predictor of a loss."""
    there = [name for name in OBJECTIVES if name in rows and rows[name].notna().all()]
    if wanted is None:
        return there[0]
    if wanted not in OBJECTIVES:
        raise UsageError(f"objective: expected one of {', '.join(OBJECTIVES)}, found {wanted}")
    if wanted not in there:
        raise UsageError(
            f"objective: the traces do not hold what {wanted} needs; record them with --also "
            f"output_projection,output_score_grad, or take {there[0]}"
        )
    return wanted


def _whole_sum(values: pd.Series) -> float:
    return values.sum(skipna=False)


def _text_id(trace: Trace, name: str) -> str:
    """Of the tokens, where the trace has them."""
    layers = next(each for each in trace.sequences if each.name == name).layers
    layer = next(layer for layer in layers if layer.kv_heads)
    ids = trace.unit(name, layer.index, layer.kv_heads[0]).token_ids
    if not len(ids):
        return f"{trace.trace_id}/{name}"
    return hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest()
