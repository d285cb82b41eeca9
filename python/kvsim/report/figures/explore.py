"""The figures for plotly.js: the same data as the drawings, to hover over and to switch on and off.

A figure is a dictionary with `data` and `layout`. A colour is a variable of the page, as in
`var(--ink)`, which page.js resolves for the theme that the reader has.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ...results.points import are_sizes, places
from ..numbers.frames import Comparison
from ..numbers.tasks import Tasks
from ..style import Style

if TYPE_CHECKING:
    from ..numbers.closed_loop import ClosedLoop

SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down",
    "P": "cross", "*": "star", "X": "x", "p": "pentagon", "h": "hexagon", "<": "triangle-left",
    ">": "triangle-right", "d": "diamond-tall", "8": "octagon", "H": "hexagon2",
}  # fmt: skip
_WIDTH = 2.0  # of a line, pixels


def curves(comparison: Comparison, measure: str, label: str, top: float = math.inf) -> dict:
    """Lines over budgets with bars. Policies that are not drawn wait in the legend for a click.

    A gap is closed only by policies that hold the budget, at the budgets that they hold.
    """
    means = comparison.means
    if measure == "gap_closed":
        ends = [measure, f"{measure}_low", f"{measure}_high"]
        means = means.assign(**{name: means[name].where(means["holds"]) for name in ends})
    values = means[measure]
    budgets = [float(place) for place in places(comparison.points)]
    unit = "bytes" if are_sizes(comparison.points) else "tokens"
    last = values.xs(comparison.points.index[-1], level="point").reindex(comparison.policies)
    data = []
    for spec in sorted(
        last.index, key=lambda s: (s not in comparison.shown, -last.fillna(0)[s], s)
    ):
        rows = means.loc[spec].reindex(comparison.points.index)
        if values[spec].notna().any():
            style = comparison.styles[spec]
            data.append(line_of(comparison, style, (budgets, unit), measure, rows))
    ticks = [f"{count:.4g}<br>{html.escape(point)}" for point, count in comparison.points.items()]
    if unit == "bytes":
        ticks = [html.escape(point) for point in comparison.points.index]
    axis = {"title": {"text": f"budget ({unit} per KV head)"}, "tickvals": budgets}
    axis["ticktext"] = ticks
    if len(budgets) > 1 and budgets[-1] / budgets[0] > 3:
        axis["type"] = "log"
    vertical: dict[str, object] = {"title": {"text": label}}
    if math.isfinite(top):
        vertical["range"] = [-0.04 * top, top]
    layout = {"xaxis": axis, "yaxis": vertical, "height": max(460, 21 * len(data) + 90)}
    return {"data": data, "layout": layout}


def line_of(
    comparison: Comparison | ClosedLoop,
    style: Style,
    budgets: tuple[list[float], str],
    measure: str,
    rows: pd.DataFrame,
) -> dict:
    """The line of a policy with bars: a measure in `rows` over budgets, and what these count."""
    at, unit = budgets
    dash = "solid"
    if not isinstance(style.line, str):
        dash = ",".join(f"{_WIDTH * length:g}px" for length in style.line[1])
    name, paint = html.escape(style.label), color(comparison, style)
    text = f"<b>{name}</b><br>%{{x:{'.6g' if unit == 'bytes' else '.4g'}}} {unit}: %{{y:.4g}}"
    line: dict[str, object] = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "visible": True if style.spec in comparison.shown else "legendonly",
        "x": at,
        "y": numbers(rows[measure]),
        "line": {"color": paint, "dash": dash, "width": _WIDTH},
        "marker": {"symbol": SYMBOLS[style.marker], "size": 8},
    }
    low, high = rows[f"{measure}_low"], rows[f"{measure}_high"]
    if low[rows[measure].notna()].notna().all():
        text += "<br>[%{customdata[0]:.4g}, %{customdata[1]:.4g}]"
        above, below = numbers(high - rows[measure]), numbers(rows[measure] - low)
        bars = {"symmetric": False, "array": above, "arrayminus": below, "thickness": 1, "width": 0}
        line["error_y"] = bars | {"color": paint}
        line["customdata"] = list(zip(numbers(low), numbers(high)))
    return line | {"hovertemplate": f"{text}<extra></extra>"}


def color(comparison: Comparison | Tasks, style: Style) -> str:
    """The variable of the page for the colour of a policy."""
    return f"var(--p{comparison.legend.index(style) + 1})"


def heat_map(
    values: pd.DataFrame,
    low: float,
    high: float,
    unit: str,
    rows: str,
    columns: str,
    is_log: bool = False,
) -> dict:
    """A trace of cells with values; `rows` and `columns` name what an index counts.

    `is_log`: a colour stands for the logarithm; what is below `low` has the colour of `low`.
    """
    shown = np.log10(values.clip(low)) if is_log else values
    ends = (math.log10(low), math.log10(high)) if is_log else (float(low), float(high))
    return {
        "type": "heatmap",
        "x": [str(name) for name in values.columns],
        "y": [html.escape(str(name)) for name in values.index],
        "z": [numbers(row) for _, row in shown.iterrows()],
        "customdata": [numbers(row) for _, row in values.iterrows()],
        "zmin": ends[0],
        "zmax": ends[1],
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": f"{rows}%{{y}}, {columns} %{{x}}: %{{customdata:.4g}} {unit}"
        "<extra></extra>",
    }


def color_axis(low: float, high: float, label: str, is_log: bool = False) -> dict:
    bar = {"title": {"text": label, "side": "right"}, "thickness": 12, "outlinewidth": 0}
    ends = (float(low), float(high))
    if is_log:
        ends = (math.log10(low), math.log10(high))
        powers = range(math.ceil(ends[0]), math.floor(ends[1]) + 1)
        bar |= {"tickvals": list(powers), "ticktext": [f"{10.0**power:g}" for power in powers]}
    return {"colorscale": "Cividis", "cmin": ends[0], "cmax": ends[1], "colorbar": bar}


def numbers(values: pd.Series) -> list[float | None]:
    return [None if pd.isna(value) else float(f"{value:.6g}") for value in values]
