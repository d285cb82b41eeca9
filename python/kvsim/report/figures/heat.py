"""Draws what policies keep, and what it costs, per layer and KV head at the chosen budget."""

import html
import textwrap
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from ..numbers.frames import Comparison
from ..numbers.selection import sentence
from ..style import Shape, Theme
from . import INDICATIVE, Drawing, Plan, bar_size, bare, explore, without_reference

_MAP = "cividis"  # readable with every kind of colour vision, and in print
_LABEL = "attention recall (share of attention, 0–1)"
_SPAN = 1e-3  # the least of the largest value that has a colour of its own


@dataclass(frozen=True)
class _Heads:
    """What maps of layers and KV heads show: a column of `replay`."""

    measure: str
    label: str
    unit: str
    scale: Normalize
    titles: dict[str, str]  # above the map of each policy


def plan(comparison: Comparison) -> list[Plan]:
    if not comparison.has_reference:
        named = {"layers": "Layers", "heads": "Heads"}
        return [without_reference(comparison, *names) for names in named.items()]
    budget = comparison.budget_name(comparison.point)
    order = _order(comparison)
    layers = Drawing(
        "layers",
        "Layers",
        f"Attention recall per layer at {budget}, the mean over sequences and KV heads."
        + sentence(comparison),
        f"A map of {len(order)} policies and {len(_values(comparison, order[0]))} layers.",
        partial(_draw_layers, comparison),
        _explore_layers(comparison),
    )
    labels = {spec: comparison.styles[spec].label for spec in order}
    shown = _Heads("attention_recall", _LABEL, "of attention", _scale(comparison), labels)
    heads = Drawing(
        "heads",
        "Heads",
        f"Attention recall per layer and KV head at {budget}, the mean over sequences. "
        "Heads that were not replayed are left blank." + sentence(comparison),
        f"{len(order)} maps of layers and KV heads, one per policy.",
        partial(_draw_heads, comparison, shown),
        _explore_heads(comparison, shown),
    )
    return [*_predicted(comparison), layers, heads]


def _predicted(comparison: Comparison) -> list[Plan]:
    """Which heads cost how many nats; nothing where the curve of the same says what is missing."""
    order = _order(comparison)
    totals = comparison.at(comparison.point)["predicted_kl"].reindex(order)
    cells = comparison.rows[comparison.rows["point"] == comparison.point]["predicted_kl"]
    if totals.isna().all() or not cells.max() > 0:
        return []
    titles = {spec: f"{comparison.styles[spec].label}: {totals[spec]:.3g}" for spec in order}
    large = [comparison.styles[spec].label for spec in order if totals[spec] > INDICATIVE]
    label = "predicted KL (nats per token, logarithmic)"
    shown = _Heads(
        "predicted_kl", label, "nats", LogNorm(_SPAN * cells.max(), cells.max(), clip=True), titles
    )
    caption = (
        f"Predicted KL per layer and KV head at {comparison.budget_name(comparison.point)}, in "
        "nats per token, the mean over sequences: half the mean square of the product of each "
        "head's change of output with the gradient of a log-probability that the model itself "
        "drew. Above each map the sum over all heads. A cell says which head costs what in the "
        "full model; what layers do to each other is not in it."
    )
    if large:
        caption += f" A sum above {INDICATIVE} nats per token is indicative only, since the "
        caption += f"prediction is local: {', '.join(large)}."
    alt = f"Maps of layers and KV heads. Sums in nats per token: {', '.join(titles.values())}."
    drawing = Drawing(
        "predicted-heads",
        "Predicted KL per head",
        caption + sentence(comparison),
        alt,
        partial(_draw_heads, comparison, shown),
        _explore_heads(comparison, shown),
    )
    return [drawing]


def _order(comparison: Comparison) -> list[str]:
    there = comparison.at(comparison.point).index
    return list(there[there.isin(comparison.shown)])


def _values(comparison: Comparison, spec: str, measure: str = "attention_recall") -> np.ndarray:
    """The measure of a policy, [layers, KV heads]; NaN if the head was not replayed."""
    rows = comparison.rows
    axes = [np.arange(rows[column].max() + 1) for column in ("layer", "kv_head")]
    chosen = rows[(rows["policy"] == spec) & (rows["point"] == comparison.point)]
    table = chosen.pivot_table(index="layer", columns="kv_head", values=measure)
    return table.reindex(index=axes[0], columns=axes[1]).to_numpy()


def _scale(comparison: Comparison) -> Normalize:
    """The colour scale, shared by both figures, so that a colour means the same recall."""
    rows = comparison.rows[comparison.rows["point"] == comparison.point]
    chosen = rows[rows["policy"].isin(comparison.shown)]["attention_recall"]
    return Normalize(np.floor(chosen.min() * 10) / 10, max(np.ceil(chosen.max() * 10) / 10, 0.1))


def _per_layer(comparison: Comparison) -> pd.DataFrame:
    """The mean recall, [policies, layers]."""
    rows = comparison.rows[comparison.rows["point"] == comparison.point]
    means = rows.groupby(["policy", "layer"])["attention_recall"].mean().unstack("layer")
    return means.loc[_order(comparison)]


def _explore_layers(comparison: Comparison) -> dict:
    table, scale = _per_layer(comparison), _scale(comparison)
    table = table.set_axis([comparison.styles[spec].label for spec in table.index])
    cells = explore.heat_map(table, scale.vmin, scale.vmax, "of attention", "", "layer")
    vertical = {"autorange": "reversed", "showgrid": False, "ticks": "", "type": "category"}
    across = {"title": {"text": "layer (index)"}, "showgrid": False, "type": "category"}
    layout: dict[str, object] = {"xaxis": across, "yaxis": vertical}
    layout["coloraxis"] = explore.color_axis(scale.vmin, scale.vmax, _LABEL)
    return {"data": [cells], "layout": layout | {"height": 120 + 26 * len(table)}}


def _explore_heads(comparison: Comparison, shown: _Heads) -> dict:
    order, scale = _order(comparison), shown.scale
    columns = min(len(order), 4)
    rows = -(-len(order) // columns)
    layout: dict[str, object] = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent", "ygap": 0.4},
        "coloraxis": explore.color_axis(scale.vmin, scale.vmax, shown.label, _is_log(scale)),
        "height": 90 + 190 * rows,
    }
    data = []
    for place, spec in enumerate(order):
        number = "" if place == 0 else str(place + 1)
        cells = pd.DataFrame(_values(comparison, spec, shown.measure))
        trace = explore.heat_map(
            cells, scale.vmin, scale.vmax, shown.unit, "layer ", "KV head", _is_log(scale)
        )
        data.append(trace | {"xaxis": f"x{number}", "yaxis": f"y{number}"})
        title = {"text": html.escape(shown.titles[spec]), "standoff": 2}
        bare_axis = {"showgrid": False, "ticks": "", "type": "category"}
        layout[f"xaxis{number}"] = bare_axis | {"title": title, "side": "top"}
        layout[f"yaxis{number}"] = bare_axis | {"autorange": "reversed"}
    return {"data": data, "layout": layout}


def _draw_layers(comparison: Comparison, theme: Theme, shape: Shape) -> Figure:
    order, table = _order(comparison), _per_layer(comparison)
    values, layers = table.to_numpy(), list(table.columns)
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
    _color_bar(figure, image, axes, shape, _LABEL)
    return figure


def _is_log(scale: Normalize) -> bool:
    return isinstance(scale, LogNorm)


def _few(indices: list[int]) -> tuple[list[float], list[str]]:
    """Places and names of at most twelve ticks."""
    step = -(-len(indices) // 12)
    shown = range(0, len(indices), step)
    return [place + 0.5 for place in shown], [str(indices[place]) for place in shown]


def _color_bar(
    figure: Figure, image: QuadMesh, axes: Axes | np.ndarray, shape: Shape, label: str
) -> None:
    bar = figure.colorbar(
        image,
        ax=axes,
        location="top",
        label=label,
        aspect=40,
        **bar_size(figure, shape),
    )
    if isinstance(image.norm, LogNorm):
        bar.ax.xaxis.set_major_formatter("{x:g}")
    bar.outline.set_visible(False)
    bar.ax.grid(False)


def _draw_heads(comparison: Comparison, shown: _Heads, theme: Theme, shape: Shape) -> Figure:
    order = _order(comparison)
    columns = min(len(order), 3 if shape.narrow else 6)
    rows = -(-len(order) // columns)
    layers, heads = _values(comparison, order[0]).shape
    panel = (shape.width - 0.5) / columns
    tall = float(np.clip(panel * layers / heads, 0.6, 1.6 * panel))
    size = (shape.width, rows * (tall + 0.36) + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(order) :]:
        axes.set_visible(False)
    for place, (axes, spec) in enumerate(zip(grid.flat, order)):
        values = _values(comparison, spec, shown.measure)
        edges = {"edgecolor": theme.paper, "linewidth": 0.8 if layers <= 16 else 0}
        image = axes.pcolormesh(values, cmap=_MAP, norm=shown.scale, **edges)
        bare(axes)
        label = shown.titles[spec].replace("+", " +")  # a line may break before a +
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
    _color_bar(figure, image, grid, shape, shown.label)
    return figure
