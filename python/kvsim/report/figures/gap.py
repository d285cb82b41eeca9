"""Draws how much of the gap between `window` and `optimal` each policy closes."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from ..numbers.averages import OPTIMAL
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..style import Shape, Theme
from . import Drawing, Missing, Plan, dot_style, explore, marker_size

NAME, TITLE = "gap-closed", "Gap closed"
_LABEL = "gap closed (0: window, 1: optimal)"
_LEAST = -1.0  # the figure cuts lower values and prints them as numbers


def plan(comparison: Comparison) -> list[Plan]:
    rows = _rows(comparison)
    if rows.empty:
        command = (
            f"kvsim sweep {comparison.trace} --policies 'window;optimal' "
            f"--budgets {','.join(comparison.points.index)} -o {comparison.results.path}"
        )
        why = "It needs rows of window, of optimal and of another policy at the same budgets."
        return [Missing(NAME, TITLE, why, command)]
    point = _point(comparison, rows)
    values = _at(rows, point).dropna().sort_values(ascending=False)
    means = comparison.at(point)
    alt = f"Gap closed at {comparison.budget_name(point)}: " + ", ".join(
        f"{comparison.styles[spec].label} {value:.2f} "
        f"{span(means.loc[spec, 'gap_closed_low'], means.loc[spec, 'gap_closed_high'], 2)}".strip()
        for spec, value in values.items()
    )
    samples = comparison.intervals.samples
    caption = (
        "(recall − window) / (optimal − window): 0 is the plain window, 1 the eviction sequence "
        "with the most recall. In the picture, a mark per budget, larger for a larger budget. A "
        "policy that holds more tokens than the protocol allows at a budget has no mark for it."
    )
    if samples.count > 1:
        caption += f" Bars: 95% intervals of the paired bootstrap over {samples.count} "
        caption += f"{samples.sampled}. A bar that reaches 0 does not distinguish the policy from "
        caption += "window."
    if len(comparison.shown) < len(comparison.policies):
        caption += " The figure shows window, optimal and the policies of the first curves that "
        caption += "evict and hold the budget."
    if comparison.splits:
        caption += " A policy that splits its budget (@) is compared with a window and an "
        caption += "optimum that split it alike or, if there are none, evenly."
    moving = explore.curves(comparison, "gap_closed", _LABEL)
    moving["layout"]["yaxis"]["range"] = [_LEAST - 0.05, 1.05]
    return [Drawing(NAME, TITLE, caption, alt, partial(_draw, comparison), moving)]


def _rows(comparison: Comparison) -> pd.DataFrame:
    """The gap closed, [points, policies], the policies ordered by their value at `_point`."""
    means = comparison.means
    rivals = means[means["holds"] & means["gap_closed"].notna()]
    rivals = rivals[rivals.index.get_level_values("policy").isin(comparison.shown)]
    anchors = [spec for spec in comparison.policies if spec.split("@")[0] in ("window", OPTIMAL)]
    rows = rivals["gap_closed"].unstack("policy").drop(columns=anchors, errors="ignore")
    rows = rows.reindex([point for point in comparison.points.index if point in rows.index])
    if rows.empty:
        return rows
    return rows[_at(rows, _point(comparison, rows)).sort_values().index]


def _point(comparison: Comparison, rows: pd.DataFrame) -> str:
    """The chosen budget or, if it has no gap, the largest one that has."""
    return comparison.point if comparison.point in rows.index else rows.index[-1]


def _at(rows: pd.DataFrame, point: str) -> pd.Series:
    return rows.iloc[rows.index.get_loc(point)]


def _draw(comparison: Comparison, theme: Theme, shape: Shape) -> Figure:
    rows = _rows(comparison)
    low, high = (
        comparison.means[f"gap_closed_{end}"].unstack("policy").reindex_like(rows)
        for end in ("low", "high")
    )
    tall = max(0.19, 0.05 + 0.1 * len(rows))  # of a policy's row, inches
    figure = Figure(figsize=(shape.width, tall * rows.shape[1] + 0.95), layout="constrained")
    axes = figure.add_subplot()
    longest_gap = 1.5 / (shape.width - 1.5)  # the width of the number, as a share of the axis
    sizes = [0.8 + 0.5 * place / max(1, len(rows) - 1) for place in range(len(rows))]
    shifts = [0.1 / tall * (place - (len(rows) - 1) / 2) for place in range(len(rows))]
    for place, spec in enumerate(rows.columns):
        style = comparison.styles[spec]
        taken = []
        for budget, size, shift in zip(rows.index, sizes, shifts):
            shown = max(rows.loc[budget, spec], _LEAST)
            ends = [max(frame.loc[budget, spec], _LEAST) for frame in (low, high)]
            height = [place + shift] * 2
            axes.plot(ends, height, color=style.color(theme), lw=0.9, solid_capstyle="butt")
            dot = {**dot_style(style, theme), "markersize": marker_size(style, size)}
            axes.plot([shown], height[:1], **dot)
            taken.append((min(shown, *ends), max(shown, *ends)))
        if rows[spec].min() < _LEAST:
            text = f"◂ to {rows[spec].min():.1f}".replace("-", "−")
            axes.annotate(
                text,
                (_free_place(taken, longest_gap), place),
                (8, 0),
                textcoords="offset points",
                va="center_baseline",
                fontsize=7,
                color=theme.muted,
                bbox={"facecolor": theme.paper, "edgecolor": "none", "pad": 0.6},
            )
    for value, name in ((0, "window"), (1, "optimal")):
        axes.axvline(value, color=theme.muted, lw=1, zorder=1.5)
        axes.annotate(
            name,
            (value, 1),
            (0, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            color=theme.muted,
        )
    axes.set_yticks(range(rows.shape[1]), [comparison.styles[spec].label for spec in rows.columns])
    axes.set_ylim(-0.6, rows.shape[1] - 0.4)
    left = min(rows.min().min(), low.min().min())
    right = max(rows.max().max(), high.max().max())
    axes.set_xlim(max(_LEAST, min(0, left)) - 0.05, max(1, right) + 0.05)
    axes.set_xlabel(_LABEL)
    axes.tick_params(axis="y", length=0)
    return figure


def _free_place(taken: list[tuple[float, float]], needed: float) -> float:
    """The first end of a bar from the left with `needed` room to its right, else the last end."""
    end = _LEAST
    for first, last in sorted(taken):
        if first - end >= needed and end > _LEAST:
            return end
        end = max(end, last)
    return end
