"""Draws persistence and sparsity per layer, from the analyses of these names."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..numbers.frames import Comparison
from ..style import Shape, Theme
from . import Drawing, Missing, Plan

_TABLES = {
    "persistence": (
        {"persistence_ratio": "persistence ratio", "pivotal_share": "pivotal share"},
        "share of tokens (0–1)",
        "Persistence ratio: of the tokens that are pivotal in the second part of the text, the "
        "share that was pivotal in the first part too. Pivotal share: of all tokens of the first "
        "part, the share that was pivotal there. Persistence is informative where it is well "
        "above that share (Scissorhands section 3.2).",
    ),
    "sparsity": (
        {"sparsity": "sparsity"},
        "sparsity (share of entries, 0–1)",
        "The share of entries of the attention matrix that are below the threshold times the "
        "largest entry of their row (H2O section 3.1).",
    ),
}


def plan(comparison: Comparison) -> list[Plan]:
    plans: list[Plan] = []
    for table, (columns, label, caption) in _TABLES.items():
        title = table.capitalize()
        needed = ["layer", "threshold", *columns, *(["split"] if table == "persistence" else [])]
        rows = comparison.analysis(table, needed)
        if rows is None:
            file = comparison.results.path
            command = f"kvsim analyze {comparison.trace} --what {table} -o {file}"
            why = f"The file has no table {table} for this trace."
            plans.append(Missing(table, title, why, command))
            continue
        rows, of = _one_setting(rows)
        means = rows.groupby("layer")[list(columns)].mean()
        alt = "; ".join(
            f"{name} per layer: " + ", ".join(f"{value:.2f}" for value in means[column])
            for column, name in columns.items()
        )
        end = f" {of} Dots: query heads; line: their mean."
        draw = partial(_draw, rows, columns, label)
        moving = _explore(rows, columns, label)
        plans.append(Drawing(table, title, caption + end, alt, draw, moving))
    return plans


def _one_setting(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows with the most frequent threshold and the middle split of each sequence."""
    threshold = rows["threshold"].value_counts().sort_index().idxmax()
    rows = rows[rows["threshold"] == threshold]
    name = f"Threshold {threshold}."
    if "split" not in rows:
        return rows, name
    splits = (
        rows.groupby("sequence")["split"].unique().map(lambda found: sorted(found)[len(found) // 2])
    )
    rows = rows[rows["split"] == rows["sequence"].map(splits)]
    shown = ", ".join(str(split) for split in sorted(set(splits)))
    return rows, f"{name} The first part has {shown} tokens."


def _explore(rows: pd.DataFrame, columns: dict, label: str) -> dict:
    data = []
    for place, (column, name) in enumerate(columns.items()):
        color = {"color": ("var(--ink)", "var(--muted)")[place]}
        points = {"type": "scatter", "legendgroup": column, "hoverinfo": "x+y"}
        heads = points | {"x": rows["layer"].tolist(), "y": rows[column].round(6).tolist()}
        means = rows.groupby("layer")[column].mean()
        line = points | {"x": means.index.tolist(), "y": means.round(6).tolist(), "name": name}
        data.append(heads | {"mode": "markers", "marker": color, "opacity": 0.35})
        data[-1]["showlegend"] = False
        data.append(line | {"mode": "lines+markers", "line": color, "marker": color})
    axes = {"xaxis": {"title": {"text": "layer (index)"}}, "yaxis": {"title": {"text": label}}}
    axes["xaxis"]["dtick"] = max(1, rows["layer"].nunique() // 12)
    axes["yaxis"]["range"] = [-0.03, 1.03]
    return {"data": data, "layout": axes | {"showlegend": len(columns) > 1, "height": 330}}


def _draw(rows: pd.DataFrame, columns: dict, label: str, theme: Theme, shape: Shape) -> Figure:
    figure = Figure(figsize=(shape.width, 3.0), layout="constrained")
    axes = figure.add_subplot()
    offset = 0.12 if len(columns) > 1 else 0.0
    # Ink and grey: a colour would suggest a policy.
    for place, (column, name) in enumerate(columns.items()):
        color = (theme.ink, theme.muted)[place]
        shift = offset * (2 * place - 1)
        marker = "os"[place]
        means = rows.groupby("layer")[column].mean()
        axes.plot(
            rows["layer"] + shift,
            rows[column],
            linestyle="none",
            marker=marker,
            color=color,
            markersize=3,
            alpha=0.35,
            markeredgewidth=0,
        )
        axes.plot(
            means.index + shift,
            means,
            color=color,
            marker=marker,
            label=name,
            linestyle=("-", (0, (4, 2)))[place],
            markeredgecolor=theme.paper,
            markeredgewidth=0.5,
        )
    axes.set_xlim(rows["layer"].min() - 0.5, rows["layer"].max() + 0.5)
    axes.set_ylim(-0.03, 1.03)
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.set_xlabel("layer (index)")
    axes.set_ylabel(label)
    if len(columns) > 1:
        figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure
