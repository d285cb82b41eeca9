"""Draws recall, miss rate and output error against the budget, oracles included."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from ...results.columns import better
from ...results.points import are_sizes, places
from ..numbers.frames import Comparison
from ..numbers.selection import sentence
from ..style import Shape, Theme
from ..style.labels import base_name
from . import (
    INDICATIVE,
    Drawing,
    Missing,
    Plan,
    dot_style,
    explore,
    line_style,
    without_reference,
)
from .line_names import name_lines
from .measures import ERRORS, SHARES

if TYPE_CHECKING:
    from ..numbers.closed_loop import ClosedLoop

_SHIFT = 2.4  # points between the bars of two policies, so that all are seen
_WITHOUT_LIMIT = ("calibrated_kl", "projected_error", "output_error_sq", "predicted_kl")
_WITHOUT_LIMIT += ("output_error_mean", "kl_mean", "delta_nll")


def plan(comparison: Comparison) -> list[Plan]:
    ladder = _ladder(comparison)
    plans: list[Plan] = []
    drawn = 0
    for measure, (name, title, label, caption) in (ERRORS | SHARES).items():
        if measure in ERRORS and not comparison.has(measure):
            if comparison.has_reference:
                plans += _without(comparison, measure)
            continue
        if measure == "output_error_sq" and comparison.has("projected_error"):
            continue  # of the two, the one that ranks
        if not comparison.has_reference:
            plans.append(without_reference(comparison, name, title))
            continue
        calibration = comparison.choice.calibration or "this file"
        caption = caption.format(better=better(measure), calibration=calibration)
        caption += " It ranks policies in this report." * (measure == comparison.ranking.measure)
        caption += _beyond_validity(comparison) if measure == "predicted_kl" else ""
        caption += ladder if not drawn else ""
        caption += sentence(comparison, not drawn) + _bars(comparison, measure, not drawn)
        plans.append(drawing(comparison, measure, name, title, label, caption))
        drawn += 1
    return plans


def _without(comparison: Comparison, measure: str) -> list[Plan]:
    """What to record for a figure of errors; nothing where another one takes its place."""
    needed = {"projected_error": "output_projection", "predicted_kl": "output_score_grad"}
    if measure not in needed:
        return []
    name, title, *_ = ERRORS[measure]
    why = f"It needs {needed[measure]} in the trace, for all layers."
    command = f"python -m kvsim.record MODEL --text FILE --also {needed[measure]} -o TRACE"
    return [Missing(name, title, why, command)]


def _beyond_validity(comparison: Comparison) -> str:
    """The sentence about totals that are too large for a local prediction."""
    totals = comparison.means["predicted_kl"]
    totals = totals[totals.index.get_level_values("policy").isin(comparison.shown)]
    large = totals[totals > INDICATIVE].index.get_level_values("policy").unique()
    if large.empty:
        return ""
    names = ", ".join(comparison.styles[spec].label for spec in large)
    return f" Above {INDICATIVE} nats per token it is indicative only: {names}."


def drawing(
    comparison: Comparison | ClosedLoop,
    measure: str,
    name: str,
    title: str,
    label: str,
    caption: str,
) -> Drawing:
    """Lines of a measure in `means` over budgets; the caption says what leaves the axis."""
    best = comparison.means[measure].xs(comparison.point, level="point").dropna()
    best = best[best.index.isin(comparison.shown)].sort_values()
    alt = f"{title} at {comparison.budget_name(comparison.point)}: " + ", ".join(
        f"{comparison.styles[spec].label} {value:.3g}" for spec, value in best.items()
    )
    beyond = _beyond(comparison, measure)
    caption += f" Beyond the axis: {', '.join(beyond)}." if beyond else ""
    draw = partial(_draw, comparison, measure, label)
    moving = explore.curves(comparison, measure, label, _top(comparison, measure))
    return Drawing(name, title, caption, alt, draw, moving)


def _bars(comparison: Comparison, measure: str, is_first: bool) -> str:
    """The sentence of the caption about intervals."""
    samples, sampled = comparison.intervals_of(measure).samples, comparison.sample_name(measure)
    if samples.count == 1:
        return f" One {sampled[:-1]} gives no intervals." if is_first else ""
    text = f" Bars: 95% intervals of the mean over {samples.count} {sampled}."
    if is_first:
        text += " All policies replay the same ones: compare two policies by the interval of their "
        text += "difference, not by whether these overlap."
    return text


def _ladder(comparison: Comparison) -> str:
    """The sentence of the caption about the lines without colour."""
    bounds = comparison.oracles & set(comparison.shown)
    if not comparison.oracles & set(comparison.policies):
        return " No oracle is in the file: kvsim sweep … --policies 'all;oracles' adds the ladder."
    if not bounds:
        return ""
    retrieval = {spec for spec in bounds if base_name(spec) == "topk"}
    said = ["the oracles, which see the future"] if bounds > retrieval else []
    said += ["topk, which keeps every token"] if retrieval else []
    return f" Without colour: {', and '.join(said)}."


def _values(comparison: Comparison, measure: str) -> pd.DataFrame:
    """One measure of the policies that are drawn, [policies, points]."""
    table = comparison.means[measure].unstack("point")[list(comparison.points.index)]
    return table[table.index.isin(comparison.shown)]


def _beyond(comparison: Comparison, measure: str) -> list[str]:
    """The labels of lines that exceed the end of the axis."""
    if len(comparison.points) == 1:
        return []
    largest = _values(comparison, measure).max(axis=1)
    leave = largest.index[largest > _top(comparison, measure)]
    return [comparison.styles[spec].label for spec in leave]


def _draw(comparison: Comparison, measure: str, label: str, theme: Theme, shape: Shape) -> Figure:
    if len(comparison.points) == 1:
        return _dots(comparison, measure, label, theme, shape)
    return _lines(comparison, measure, label, theme, shape)


def _lines(comparison: Comparison, measure: str, label: str, theme: Theme, shape: Shape) -> Figure:
    values, top = _values(comparison, measure), _top(comparison, measure)
    low, high = (_values(comparison, f"{measure}_{end}") for end in ("low", "high"))
    height = max(shape.height, 0.165 * len(values) + 1.0)
    figure = Figure(figsize=(shape.width, height))
    lasts = values.ffill(axis=1).iloc[:, -1].dropna()  # a policy may lack the largest budgets
    names = {
        spec: comparison.styles[spec].label + (f" ▴ {last:.3g}" if last > top else "")
        for spec, last in lasts.items()
    }
    longest = max(map(len, names.values()), default=0)
    right = 1 - (0.42 + 0.068 * longest) / shape.width
    left, bottom = 0.55 / shape.width, 0.62 / height
    axes = figure.add_axes((left, bottom, right - left, 1 - 0.12 / height - bottom))
    budgets = places(comparison.points).to_numpy()
    width = (right - left) * shape.width  # of the axes, inches
    shifts = _shifts(comparison, values.index, width)
    for spec in _back_to_front(comparison, values.index):
        style = line_style(comparison.styles[spec], theme)
        leaves = values.loc[spec].max() > top
        axes.plot(budgets, values.loc[spec], **style, zorder=2.5, clip_on=leaves)
        ends = np.stack([low.loc[spec], high.loc[spec]])
        bars = {"color": style["color"], "lw": 0.8, "alpha": 0.55, "zorder": 2.2}
        lines = axes.plot(np.stack([budgets, budgets]), ends, **bars, clip_on=leaves)
        # Moved after they are added, so that the limits of the axes are those of the data.
        aside = ScaledTranslation(shifts[spec] / 72, 0, figure.dpi_scale_trans)
        for line in lines:
            line.set_transform(axes.transData + aside)
    if values.max().max() > top:
        axes.set_ylim(values.min().min() - 0.04 * top, top)
    if is_wide(budgets):
        axes.set_xscale("log")
    axes.set_xticks(budgets, [_tick(comparison, point) for point in comparison.points.index])
    axes.minorticks_off()
    axes.set_xlabel(budget_axis(comparison.points))
    axes.set_ylabel(label)
    axes.margins(x=max(0.02, 1.2 * max(shifts.values()) / 72 / width))
    make_room(axes)
    ends = {spec: (budgets[-1], min(last, top)) for spec, last in lasts.items()}
    name_lines(axes, comparison.styles, ends, names, theme)
    return figure


def make_room(axes: Axes) -> None:
    """Moves the left side of the axes for values of more digits than shares have."""
    numbers = axes.yaxis.get_major_formatter().format_ticks(axes.get_yticks())
    more = 0.062 * max(0, max(map(len, numbers)) - 4) / axes.figure.get_figwidth()
    box = axes.get_position()
    axes.set_position((box.x0 + more, box.y0, box.width - more, box.height))


def _shifts(comparison: Comparison, specs: pd.Index, width: float) -> dict[str, float]:
    """How far to the side the bars of each line are, in points, on axes of this width in inches."""
    budgets = places(comparison.points).to_numpy()
    at = np.log(budgets) if is_wide(budgets) else budgets
    nearest = np.diff(at).min() / np.ptp(at) * width * 72
    step = min(_SHIFT, 0.3 * nearest / len(specs))
    middle = (len(specs) - 1) / 2
    return {spec: step * (place - middle) for place, spec in enumerate(specs)}


def is_wide(budgets: np.ndarray) -> bool:
    """Whether the axis of budgets is logarithmic."""
    return bool(budgets[-1] / budgets[0] > 3)


def budget_axis(points: pd.Series) -> str:
    """The name of the axis of budgets."""
    return f"budget ({'bytes' if are_sizes(points) else 'tokens'} per KV head)"


def _tick(comparison: Comparison, point: str) -> str:
    if are_sizes(comparison.points):
        return point
    tokens = f"{comparison.points[point]:.4g}"
    return tokens if point == tokens else f"{tokens}\n{point}"


def _back_to_front(comparison: Comparison, specs: pd.Index) -> list[str]:
    return sorted(specs, key=lambda spec: (not comparison.styles[spec].is_oracle, spec))


def _top(comparison: Comparison, measure: str) -> float:
    """The end of the axis, so that a few very large errors do not flatten all other lines.

    The error of an estimator has no limit, and KL has none. Infinity means that all values fit.
    """
    if measure not in _WITHOUT_LIMIT:
        return float("inf")  # shares are 1 at most
    return axis_end(_values(comparison, measure).max(axis=1), comparison.oracles)


def axis_end(largest: pd.Series, oracles: set[str]) -> float:
    """The same for the largest value of each policy's line."""
    # Typical errors are those of policies: oracles and `full` have almost none.
    rivals = largest[(largest > 0) & ~largest.index.isin(oracles)]
    typical = rivals[rivals <= 5 * rivals.median()]
    top = 1.08 * typical.max() if len(typical) else float("inf")
    return float("inf") if largest.max() <= top else top


def _dots(comparison: Comparison, measure: str, label: str, theme: Theme, shape: Shape) -> Figure:
    values = _values(comparison, measure).iloc[:, 0]
    values = values.sort_values(ascending=False, kind="stable")
    low, high = (_values(comparison, f"{measure}_{end}").iloc[:, 0] for end in ("low", "high"))
    figure = Figure(figsize=(shape.width, 0.19 * len(values) + 0.9), layout="constrained")
    axes = figure.add_subplot()
    for place, (spec, value) in enumerate(values.items()):
        style = comparison.styles[spec]
        axes.plot([low[spec], high[spec]], [place, place], color=style.color(theme), lw=1)
        axes.plot([value], [place], **dot_style(style, theme))
    axes.set_yticks(range(len(values)), [comparison.styles[spec].label for spec in values.index])
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.set_title(f"budget: {comparison.budget_name(comparison.point)} per KV head", loc="left")
    axes.tick_params(axis="y", length=0)
    return figure
