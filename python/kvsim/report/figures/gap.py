"""Draws how much of the gap between `window` and `optimal` each policy closes."""

import itertools
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from ..frames import OPTIMAL, Comparison
from ..style import Shape, Theme
from . import Drawing, Missing, Plan, dot_style, marker_size

NAME, TITLE = "gap-closed", "Gap closed"
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
    alt = f"Gap closed at {comparison.budget_name(point)}: " + ", ".join(
        f"{comparison.styles[spec].label} {value:.2f}" for spec, value in values.items()
    )
    caption = (
        "(recall − window) / (optimal − window): 0 is the plain window, 1 the best eviction "
        "sequence there is. One mark per budget, larger for a larger budget. Policies that keep "
        "more tokens than the budget are left out."
    )
    if comparison.splits:
        caption += " A policy that splits its budget (@) is compared with a window and an "
        caption += "optimum that split it alike or, if there are none, evenly."
    return [Drawing(NAME, TITLE, caption, alt, partial(_draw, comparison))]


def _rows(comparison: Comparison) -> pd.DataFrame:
    """The gap closed, [points, policies], the policies ordered by their value at `_point`."""
    means = comparison.means
    rivals = means[means["holds"] & means["gap_closed"].notna()]
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
    figure = Figure(figsize=(shape.width, 0.19 * rows.shape[1] + 0.95), layout="constrained")
    axes = figure.add_subplot()
    longest_gap = 1.5 / (shape.width - 1.5)  # the width of the number, as a share of the axis
    sizes = [0.8 + 0.9 * place / max(1, len(rows) - 1) for place in range(len(rows))]
    for place, spec in enumerate(rows.columns):
        style = comparison.styles[spec]
        shown = rows[spec].clip(lower=_LEAST)
        axes.plot([shown.min(), shown.max()], [place, place], color=style.color(theme), lw=0.9)
        for value, size in zip(shown, sizes):
            dot = {**dot_style(style, theme), "markersize": marker_size(style, size)}
            axes.plot([value], [place], **dot)
        if rows[spec].min() < _LEAST:
            text = f"◂ to {rows[spec].min():.1f}".replace("-", "−")
            free = _free_place(list(shown.dropna()), longest_gap)
            axes.annotate(
                text,
                (free, place),
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
    low, high = rows.min().min() - 0.05, rows.max().max() + 0.05
    axes.set_xlim(max(_LEAST - 0.05, min(-0.05, low)), max(1.05, high))
    axes.set_xlabel("gap closed (0: window, 1: optimal)")
    axes.tick_params(axis="y", length=0)
    return figure


def _free_place(marks: list[float], needed: float) -> float:
    """The first mark from the left with `needed` room to its right, else the last mark."""
    marks = sorted(marks)
    for mark, other in itertools.pairwise(marks):
        if other - mark >= needed:
            return mark
    return marks[-1]
