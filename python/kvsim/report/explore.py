"""The figures for plotly.js: the same data as the drawings, to hover over and to switch on and off.

A figure is a dictionary with `data` and `layout`. A colour is a variable of the page, as in
`var(--ink)`, which page.js resolves for the theme that the reader has.
"""

import html
import math

import pandas as pd

from .frames import Comparison
from .style import Style

_SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down",
    "P": "cross", "*": "star", "X": "x", "p": "pentagon", "h": "hexagon", "<": "triangle-left",
    ">": "triangle-right", "d": "diamond-tall", "8": "octagon", "H": "hexagon2",
}  # fmt: skip
_WIDTH = 2.0  # of a line, pixels
_BAND = 0.13  # opacity


def curves(comparison: Comparison, measure: str, label: str, top: float = math.inf) -> dict:
    """Lines over budgets with bands. Policies that are not drawn wait in the legend for a click."""
    tokens = [float(count) for count in comparison.points]
    data = []
    for spec in sorted(comparison.policies, key=lambda s: (s not in comparison.shown, s)):
        style = comparison.styles[spec]
        rows = comparison.means.loc[spec].reindex(comparison.points.index)
        if rows[measure].isna().all():
            continue
        visible = True if spec in comparison.shown else "legendonly"
        common = {"type": "scatter", "legendgroup": spec, "visible": visible}
        low, high = (_numbers(rows[f"{measure}_{end}"]) for end in ("low", "high"))
        if len(tokens) > 1 and None not in low:
            band = {"x": tokens + tokens[::-1], "y": high + low[::-1], "fill": "toself"}
            band |= {"fillcolor": color(comparison, style), "line": {"width": 0}, "mode": "lines"}
            data.append(
                common | band | {"opacity": _BAND, "hoverinfo": "skip", "showlegend": False}
            )
        data.append(common | _line(comparison, style, tokens, rows[measure], low, high))
    ticks = [f"{count:.4g}<br>{html.escape(point)}" for point, count in comparison.points.items()]
    axis = {"title": {"text": "budget (tokens per KV head)"}, "tickvals": tokens, "ticktext": ticks}
    if len(tokens) > 1 and tokens[-1] / tokens[0] > 3:
        axis["type"] = "log"
    vertical: dict[str, object] = {"title": {"text": label}}
    if math.isfinite(top):
        vertical["range"] = [-0.04 * top, top]
    return {"data": data, "layout": {"xaxis": axis, "yaxis": vertical}}


def _line(
    comparison: Comparison,
    style: Style,
    tokens: list[float],
    values: pd.Series,
    low: list[float | None],
    high: list[float | None],
) -> dict:
    dash = "solid"
    if not isinstance(style.line, str):
        dash = ",".join(f"{_WIDTH * length:g}px" for length in style.line[1])
    interval = "" if None in low else " [%{customdata[0]:.4f}, %{customdata[1]:.4f}]"
    name = html.escape(style.label)
    return {
        "mode": "lines+markers",
        "name": name,
        "x": tokens,
        "y": _numbers(values),
        "customdata": list(zip(low, high)),
        "line": {"color": color(comparison, style), "dash": dash, "width": _WIDTH},
        "marker": {"symbol": _SYMBOLS[style.marker], "size": 8},
        "hovertemplate": f"<b>{name}</b><br>%{{x:.4g}} tokens: %{{y:.4f}}{interval}<extra></extra>",
    }


def color(comparison: Comparison, style: Style) -> str:
    """The variable of the page for the colour of a policy."""
    return f"var(--p{comparison.legend.index(style) + 1})"


def heat_map(
    values: pd.DataFrame, low: float, high: float, unit: str, rows: str, columns: str
) -> dict:
    """A trace of cells with values; `rows` and `columns` name what an index counts."""
    return {
        "type": "heatmap",
        "x": [str(name) for name in values.columns],
        "y": [html.escape(str(name)) for name in values.index],
        "z": [_numbers(row) for _, row in values.iterrows()],
        "zmin": float(low),
        "zmax": float(high),
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": f"{rows}%{{y}}, {columns} %{{x}}: %{{z:.4f}} {unit}<extra></extra>",
    }


def color_axis(low: float, high: float, label: str) -> dict:
    bar = {"title": {"text": label, "side": "right"}, "thickness": 12, "outlinewidth": 0}
    return {"colorscale": "Cividis", "cmin": float(low), "cmax": float(high), "colorbar": bar}


def _numbers(values: pd.Series) -> list[float | None]:
    return [None if pd.isna(value) else round(float(value), 6) for value in values]
