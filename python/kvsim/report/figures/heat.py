"""Draws attention recall per layer, and per layer and KV head, at the chosen budget."""

import textwrap
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..frames import Comparison
from ..style import Shape, Theme
from . import Drawing, Plan, bar_size, bare, without_reference

_MAP = "cividis"  # readable with every kind of colour vision, and in print
_LABEL = "attention recall (share of attention, 0–1)"


def plan(comparison: Comparison) -> list[Plan]:
    if not comparison.has_reference:
        named = {"layers": "Layers", "heads": "Heads"}
        return [without_reference(comparison, *names) for names in named.items()]
    budget = comparison.budget_name(comparison.point)
    order = _order(comparison)
    layers = Drawing(
        "layers",
        "Layers",
        f"Attention recall per layer at {budget}, the mean over sequences and KV heads.",
        f"A map of {len(order)} policies and {len(_values(comparison, order[0]))} layers.",
        partial(_draw_layers, comparison),
    )
    heads = Drawing(
        "heads",
        "Heads",
        f"Attention recall per layer and KV head at {budget}, the mean over sequences. "
        "Heads that were not replayed are left blank.",
        f"{len(order)} maps of layers and KV heads, one per policy.",
        partial(_draw_heads, comparison),
    )
    return [layers, heads]


def _order(comparison: Comparison) -> list[str]:
    return list(comparison.at(comparison.point).index)


def _values(comparison: Comparison, spec: str) -> np.ndarray:
    """The recall of a policy, [layers, KV heads]; NaN if the head was not replayed."""
    rows = comparison.rows
    axes = [np.arange(rows[column].max() + 1) for column in ("layer", "kv_head")]
    chosen = rows[(rows["policy"] == spec) & (rows["point"] == comparison.point)]
    table = chosen.pivot_table(index="layer", columns="kv_head", values="attention_recall")
    return table.reindex(index=axes[0], columns=axes[1]).to_numpy()


def _scale(comparison: Comparison) -> Normalize:
    """The colour scale, shared by both figures, so that a colour means the same recall."""
    chosen = comparison.rows[comparison.rows["point"] == comparison.point]["attention_recall"]
    return Normalize(np.floor(chosen.min() * 10) / 10, max(np.ceil(chosen.max() * 10) / 10, 0.1))


def _draw_layers(comparison: Comparison, theme: Theme, shape: Shape) -> Figure:
    order = _order(comparison)
    measured = [
        comparison.rows[comparison.rows["policy"] == spec]
        .pipe(lambda rows: rows[rows["point"] == comparison.point])
        .groupby("layer")["attention_recall"]
        .mean()
        for spec in order
    ]
    layers = sorted(set().union(*(series.index for series in measured)))
    values = np.array([series.reindex(layers) for series in measured])
    figure = Figure(figsize=(shape.width, 0.2 * len(order) + 1.3), layout="constrained")
    axes = figure.add_subplot()
    scale = _scale(comparison)
    image = axes.pcolormesh(values, cmap=_MAP, norm=scale, edgecolor=theme.paper, linewidth=0.8)
    axes.set_yticks(np.arange(len(order)) + 0.5, [comparison.styles[s].label for s in order])
    axes.set_xticks(*_few(layers))
    axes.invert_yaxis()
    bare(axes)
    if len(layers) <= (6 if shape.narrow else 16):
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value):
                color = "#ffffff" if scale(value) < 0.5 else "#000000"
                where = {"ha": "center", "va": "center_baseline", "fontsize": 7, "color": color}
                axes.text(column + 0.5, row + 0.5, f"{value:.2f}", **where)
    axes.set_xlabel("layer (index)")
    _color_bar(figure, image, axes, shape)
    return figure


def _few(indices: list[int]) -> tuple[list[float], list[str]]:
    """Places and names of at most twelve ticks."""
    step = -(-len(indices) // 12)
    shown = range(0, len(indices), step)
    return [place + 0.5 for place in shown], [str(indices[place]) for place in shown]


def _color_bar(figure: Figure, image: QuadMesh, axes: Axes | np.ndarray, shape: Shape) -> None:
    bar = figure.colorbar(
        image,
        ax=axes,
        location="top",
        label=_LABEL,
        aspect=40,
        **bar_size(figure, shape),
    )
    bar.outline.set_visible(False)
    bar.ax.grid(False)


def _draw_heads(comparison: Comparison, theme: Theme, shape: Shape) -> Figure:
    order = _order(comparison)
    columns = min(len(order), 3 if shape.narrow else 6)
    rows = -(-len(order) // columns)
    layers, heads = _values(comparison, order[0]).shape
    panel = (shape.width - 0.5) / columns
    tall = float(np.clip(panel * layers / heads, 0.6, 1.6 * panel))
    size = (shape.width, rows * (tall + 0.36) + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    scale = _scale(comparison)
    for axes in grid.flat[len(order) :]:
        axes.set_visible(False)
    for place, (axes, spec) in enumerate(zip(grid.flat, order)):
        values = _values(comparison, spec)
        edges = {"edgecolor": theme.paper, "linewidth": 0.8 if layers <= 16 else 0}
        image = axes.pcolormesh(values, cmap=_MAP, norm=scale, **edges)
        bare(axes)
        label = comparison.styles[spec].label.replace("+", " +")  # a line may break before a +
        title = textwrap.fill(label, 16, break_on_hyphens=False).replace(" +", "+")
        axes.set_title(title, fontsize=7.5)
        axes.set_yticks(*_few(list(range(layers))))
        axes.set_xticks(*_few(list(range(heads))))
        axes.tick_params(labelbottom=place + columns >= len(order), labelsize=6.5)
        if place % columns == 0:
            axes.set_ylabel("layer (index)", fontsize=7)
        if place + columns >= len(order):
            axes.set_xlabel("KV head (index)", fontsize=7)
    grid[0, 0].invert_yaxis()
    _color_bar(figure, image, grid, shape)
    return figure
