"""Projected errors with a weight for each layer, fitted to what a running model loses.

A replay says how far the output of each layer is off, not what that costs. A result file with rows
of both loops says it of some texts and policies: there the KL is fitted as a weighted sum of the
projected errors of the layers, and the weights tell the KL of other texts and other policies. How
well that ranks policies is in sim/results/comparisons.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from .reading import Results, load

Tables = Results | Mapping[str, pd.DataFrame]

_TEXT = ["trace_id", "sequence", "mode"]
_ROW = [*_TEXT, "policy", "budget", "seed"]
_LEAST_KL = 1e-6  # nats that a forward pass in float32 tells from none
# Above, losses no longer add up over layers, and a few disasters would decide the fit.
_MOST_KL = 0.3
_MOST_SWEEPS = 10_000
_PRECISION = 1e-9  # of a fitted share of the KL


def layer_weights(results: str | Path | Tables) -> pd.DataFrame:
    """The weights of the layers that all texts of a result file give.

    Parameters
    ----------
    results : path, Results, or dict of str to pandas.DataFrame
        A result file, what `kvsim.load` gives, or a dict of its tables.

    Returns
    -------
    pandas.DataFrame
        One row per model_id, mode and layer: `loop`, `texts` and `rows`, what the fit saw;
        `weight`, nats per token and squared norm; `share` of the fitted KL of these rows.

    Raises
    ------
    DataError
        Where no model has as many such rows as layers.
    ResultsError
        As `kvsim.load`.

    Notes
    -----
    The weights w_l >= 0 minimise the sum over rows of (sum_l w_l e_l / kl - 1)^2, where a row is a
    text, policy and budget of `closed_loop`, kl is its `kl_mean` and e_l the `projected_error` of
    layer l in its replay. Rows with a kl of up to 0.3 nats per token count, of the imposed loop or,
    where it has none, of the adaptive one.

    Examples
    --------
    >>> kvsim.layer_weights("results.sqlite").set_index("layer").share
    """
    tables = tables_of(results)
    found = []
    for (model, mode), fit in _fits(tables).items():
        weights = fit.weights()
        parts = weights * fit.errors.mean()
        frame = pd.DataFrame({"weight": weights, "share": parts / parts.sum()}).reset_index()
        seen = {"loop": fit.loop, "texts": fit.texts.nunique(), "rows": len(fit.kl)}
        found.append(frame.assign(model_id=model, mode=mode, **seen))
    if not found:
        raise DataError(_lacking(tables, "the tables"))
    order = ["model_id", "mode", "loop", "texts", "rows", "layer", "weight", "share"]
    return pd.concat(found, ignore_index=True)[order]


def calibrated_kl(
    results: str | Path | Tables, calibration: str | Path | Tables | None = None
) -> pd.DataFrame:
    """The KL that the replay of each row predicts: its projected errors, weighted by layer.

    Parameters
    ----------
    results : path, Results, or dict of str to pandas.DataFrame
        A result file, what `kvsim.load` gives, or a dict of its tables.
    calibration : path, Results, or dict of str to pandas.DataFrame, optional
        Has rows of both loops of the same model. None: `results`.

    Returns
    -------
    pandas.DataFrame
        One row per trace_id, sequence, mode, policy, budget and seed of `layer_error`, with
        `calibrated_kl` in nats per token; rows without weights, or without all layers, are left
        out.

    Raises
    ------
    DataError
        For a `calibration` that does not give the weights of a text.
    ResultsError
        As `kvsim.load`.

    Notes
    -----
    The weights of a text are those of `kvsim.layer_weights` from all other texts there, so that
    none is judged by what was fitted to it; texts of one name are one.

    References
    ----------
    How well the estimate ranks policies: sim/results/comparisons.md.

    Examples
    --------
    >>> kvsim.calibrated_kl("results.sqlite").groupby("policy").calibrated_kl.mean()
    """
    tables = tables_of(results)
    weighted = weighted_errors(tables, None if calibration is None else tables_of(calibration))
    if weighted.empty:
        return weighted[_ROW].assign(calibrated_kl=[])
    groups = weighted.groupby(_ROW)
    whole = groups["calibrated_kl"].count().eq(groups["num_layers"].max())
    return groups["calibrated_kl"].sum()[whole].reset_index()


def weighted_errors(tables: Tables, calibration: Tables | None = None) -> pd.DataFrame:
    """The rows of `layer_error` whose text has weights, with `calibrated_kl`, the layer's part."""
    if "layer_error" not in tables:
        return pd.DataFrame(columns=[*_ROW, "layer", "num_layers", "calibrated_kl"])
    errors = tables["layer_error"]
    weights = list(_weights_of_texts(tables, errors, calibration))
    if not weights:
        return errors.iloc[:0].assign(calibrated_kl=[])
    rows = errors.merge(pd.concat(weights), on=[*_TEXT, "layer"])
    return rows.assign(calibrated_kl=rows["projected_error"] * rows["weight"])


def _weights_of_texts(
    tables: Tables, errors: pd.DataFrame, calibration: Tables | None
) -> Iterator[pd.DataFrame]:
    """Per text and mode: its layers and their weights. Texts without are left out."""
    fits = _fits(tables if calibration is None else calibration)
    if calibration is None:
        closed = tables["closed_loop"] if "closed_loop" in tables else pd.DataFrame()
        models = dict(zip(closed["trace_id"], closed["model_id"])) if len(closed) else {}
    else:
        fitted = {model for model, _ in fits}
        if len(fitted) != 1:
            raise DataError(_lacking(calibration, "calibration"))
        models = dict.fromkeys(errors["trace_id"].unique(), fitted.pop())
    for text in errors[_TEXT].drop_duplicates().itertuples(index=False):
        fit = fits.get((models.get(text.trace_id), text.mode))
        weights = None if fit is None else fit.weights(without=text.sequence)
        if weights is not None:
            yield weights.rename("weight").reset_index().assign(**text._asdict())
        elif calibration is not None:
            raise DataError(_lacking(calibration, "calibration", text))


@dataclass(frozen=True)
class _Fit:
    """The rows of one model and mode that have both loops."""

    loop: str
    errors: pd.DataFrame  # [rows, layers]: projected errors
    kl: np.ndarray  # [rows]
    texts: pd.Series  # [rows]: the names

    def weights(self, without: str | None = None) -> pd.Series | None:
        """Of each layer, from the rows of all other texts; None from fewer rows than layers."""
        seen = (self.texts != without).to_numpy()
        if seen.sum() < self.errors.shape[1]:
            return None
        relative = self.errors.to_numpy()[seen] / self.kl[seen, None]
        return pd.Series(_least_squares(relative), self.errors.columns)


def _fits(tables: Tables) -> dict[tuple[str, str], _Fit]:
    if "closed_loop" not in tables or "layer_error" not in tables:
        return {}
    found = {}
    errors, closed = tables["layer_error"], tables["closed_loop"]
    if "fetch" in tables:  # selectors evict nothing, and are no policies to rank
        selectors = tables["fetch"]["select"].unique()
        errors = errors[~errors["policy"].isin(selectors)]
        closed = closed[~closed["policy"].isin(selectors)]
    for key, rows in closed.groupby(["model_id", "mode"]):
        loop = min(set(rows["loop"]), key=["imposed", "adaptive"].index)
        kl = rows[rows["loop"] == loop].set_index(_ROW)["kl_mean"]
        kl = kl[kl.between(_LEAST_KL, _MOST_KL)]
        of_model = errors[errors["trace_id"].isin(rows["trace_id"])]
        wide = of_model.pivot(index=_ROW, columns="layer", values="projected_error")
        wide = wide[wide.index.isin(kl.index)].dropna()
        is_whole = wide.shape[1] == of_model["num_layers"].max()
        if is_whole and len(wide) >= wide.shape[1]:
            texts = wide.index.get_level_values("sequence").to_series()
            found[key] = _Fit(loop, wide, kl[wide.index].to_numpy(), texts)
    return found


def _least_squares(relative: np.ndarray) -> np.ndarray:
    """The weights >= 0, one per column, with the least sum of squares of relative @ weights - 1.

    Coordinate by coordinate: Franc, Hlavac and Navara, Sequential Coordinate-wise Algorithm for the
    Non-negative Least Squares Problem, CAIP 2005. A column of zeros gets the weight 0.
    """
    products = relative.T @ relative
    weights = np.zeros(len(products))
    slope = -relative.sum(axis=0)  # of half the sum of squares
    places = np.flatnonzero(products.diagonal())
    for _ in range(_MOST_SWEEPS):
        largest = 0.0
        for place in places:
            new = max(0.0, weights[place] - slope[place] / products[place, place])
            change = new - weights[place]
            slope += change * products[place]
            weights[place] = new
            largest = max(largest, abs(change) * np.sqrt(products[place, place]))
        if largest < _PRECISION * np.sqrt(len(relative)):
            break
    return weights


def tables_of(results: str | Path | Tables) -> Tables:
    """The tables of a result file, or those that were handed over."""
    return load(results) if isinstance(results, (str, Path)) else results


def _lacking(tables: Tables, called: str, text: Any = None) -> str:
    of = "" if text is None else f" in mode {text.mode}, of other texts than {text.sequence}"
    return (
        f"{getattr(tables, 'path', called)}: expected rows of closed_loop and layer_error of one "
        f"model{of}, with a kl_mean of up to {_MOST_KL}, at least as many (texts x policies x "
        "budgets) as it has layers. What writes both: python -m kvsim.evaluate MODEL --texts FILE "
        f"--policies SPECS --budgets LIST -o {getattr(tables, 'path', 'RESULTS.sqlite')}"
    )
