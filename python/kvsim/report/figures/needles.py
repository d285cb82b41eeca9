"""Draws where policies find needles: the score by length of the context and depth of the needle."""

import html
import textwrap
from functools import partial

import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..numbers.scores import MOST_DEPTHS, MOST_LENGTHS, Scores
from ..numbers.tasks import FULL, Tasks
from ..style import Shape, Theme
from . import Drawing, Plan, bar_size, bare, explore

NAME, TITLE = "needles", "Needles by length and depth"
_LABEL = "score (share of right answers, 0–1)"
_MAP = "cividis"  # readable with every kind of colour vision, and in print
_MOST_PANELS = 8


def plan(tasks: Tasks, question: str, scores: Scores) -> list[Plan]:
    """A map per policy; nothing where no text has a needle at a known depth."""
    found = scores.needles
    if found.empty:
        return []
    means = found.groupby("policy")["score"].mean().sort_values(ascending=False, kind="stable")
    order = [*([FULL] if FULL in means.index else []), *(s for s in means.index if s != FULL)]
    shown = order[:_MOST_PANELS]
    names = sorted(found["task"].unique())
    caption = (
        f"The score by the length of the context, in tokens, and the depth of the needle in it, at "
        f"{tasks.budget_name}, question {question}: the mean over texts of {', '.join(names)}. "
        "Depth 0 is the beginning of the context. More than "
        f"{MOST_LENGTHS} lengths or {MOST_DEPTHS} depths are grouped, under the middle of each "
        "group. Above each map the mean of all."
    )
    if len(shown) < len(order):
        caption += f" Drawn are {len(shown)} of {len(order)} policies, those with the highest."
    alt = "Maps of lengths and depths. Means: " + ", ".join(
        f"{tasks.styles[spec].label} {means[spec]:.2f}" for spec in shown
    )
    titles = {spec: f"{tasks.styles[spec].label}: {means[spec]:.2f}" for spec in shown}
    draw = partial(_draw, found, titles)
    title = f"{TITLE}, question {question}"
    moving = _explore(found, titles)
    return [Drawing(f"{NAME}-{question}", title, caption, alt, draw, moving)]


def cells_of(found: pd.DataFrame, spec: str) -> pd.DataFrame:
    """The mean score of a policy, [depths, lengths]; NaN where no text has both."""
    axes = [sorted(found[name].unique()) for name in ("depth", "length")]
    rows = found[found["policy"] == spec]
    table = rows.pivot_table(index="depth", columns="length", values="score")
    return table.reindex(index=axes[0], columns=axes[1])


def _explore(found: pd.DataFrame, titles: dict[str, str]) -> dict:
    columns = min(len(titles), 3)
    rows = -(-len(titles) // columns)
    layout: dict[str, object] = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent", "ygap": 0.4},
        "coloraxis": explore.color_axis(0, 1, _LABEL),
        "height": 90 + 190 * rows,
    }
    data = []
    for place, (spec, title) in enumerate(titles.items()):
        number = "" if place == 0 else str(place + 1)
        cells = cells_of(found, spec)
        cells = cells.set_axis([f"{depth:.2g}" for depth in cells.index])
        cells = cells.set_axis([f"{length:.0f}" for length in cells.columns], axis="columns")
        trace = explore.heat_map(cells, 0, 1, "of answers", "depth ", "tokens")
        data.append(trace | {"xaxis": f"x{number}", "yaxis": f"y{number}"})
        bare_axis = {"showgrid": False, "ticks": "", "type": "category"}
        above = {"text": html.escape(title), "standoff": 2}
        layout[f"xaxis{number}"] = bare_axis | {"title": above, "side": "top"}
        layout[f"yaxis{number}"] = bare_axis | {"autorange": "reversed"}
    return {"data": data, "layout": layout}


def _draw(found: pd.DataFrame, titles: dict[str, str], theme: Theme, shape: Shape) -> Figure:
    columns = min(len(titles), 2 if shape.narrow else 4)
    rows = -(-len(titles) // columns)
    depths, lengths = cells_of(found, next(iter(titles))).shape
    tall = min(max(0.17 * depths, 0.7), 1.9)
    figure = Figure(figsize=(shape.width, rows * (tall + 0.4) + 1.0), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(titles) :]:
        axes.set_visible(False)
    scale = Normalize(0, 1)
    for place, (axes, (spec, title)) in enumerate(zip(grid.flat, titles.items())):
        cells = cells_of(found, spec)
        edges = {"edgecolor": theme.paper, "linewidth": 0.8}
        image = axes.pcolormesh(cells.to_numpy(), cmap=_MAP, norm=scale, **edges)
        bare(axes)
        axes.set_title(textwrap.fill(title, 24), fontsize=7.5)
        axes.set_yticks([row + 0.5 for row in range(depths)], [f"{d:.2g}" for d in cells.index])
        names = [f"{length:.0f}" for length in cells.columns]
        axes.set_xticks([column + 0.5 for column in range(lengths)], names, rotation=45)
        axes.tick_params(labelbottom=place + columns >= len(titles), labelsize=6.5)
        if place % columns == 0:
            axes.set_ylabel("depth (share)", fontsize=7)
        if place + columns >= len(titles):
            axes.set_xlabel("length (tokens)", fontsize=7)
    grid[0, 0].invert_yaxis()
    bar = figure.colorbar(
        image, ax=grid, location="top", label=_LABEL, aspect=40, **bar_size(figure, shape)
    )
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    return figure
