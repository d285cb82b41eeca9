"""Draws keys and values on a plane with the centres of greedy k-centre (SubGen Figure 1)."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ...errors import KvsimError
from ...trace import Trace
from ..numbers.attention import TraceError, find_trace
from ..numbers.embedding import PCA, greedy_centres, plane
from ..numbers.frames import Comparison
from ..style import PALETTE, Shape, Theme, mix
from . import Drawing, Missing, Plan

NAME, TITLE = "keys-and-values", "Keys and values"
_CENTRES = 16  # as in the paper's figure
_MOST_LAYERS = 5
_MOST_TOKENS = 1024
_CENTRE_COLOR = PALETTE[5]  # green, as in the paper
_NEEDED = ["layer", "kv_head", "of", "k", "relative_radius"]


@dataclass(frozen=True)
class _Panel:
    of: str  # key or value
    layer: int
    kv_head: int
    places: np.ndarray  # [tokens drawn, 2]
    centres: np.ndarray  # indices into the tokens drawn


def plan(comparison: Comparison) -> list[Plan]:
    rows = comparison.analysis("clusters", _NEEDED)
    file = comparison.results.path
    if rows is None:
        command = f"kvsim analyze {comparison.trace} --what clusters -o {file}"
        return [Missing(NAME, TITLE, "The file has no table clusters for this trace.", command)]
    sequence = sorted(rows["sequence"])[0]
    rows = rows[rows["sequence"] == sequence]
    heads = _heads(rows)
    try:
        named = comparison.choice.trace or comparison.trace
        path = find_trace(named, file.parent, str(rows["trace_id"].iloc[0]))
        shown, total = _tokens(path, sequence)
    except TraceError as error:
        why = f"It is computed from the trace: {error}."
        return [Missing(NAME, TITLE, why, f"kvsim report {file} -o DIR --trace TRACE")]
    method, embed = plane()
    radii = {of: _relative_radius(rows, of) for of in ("key", "value")}
    distances = (
        f"with {_CENTRES} centres the farthest key is at {radii['key']:.2f} of the distance that "
        f"it has with one, the farthest value at {radii['value']:.2f}"
    )
    names = ", ".join(f"{layer}/{kv_head}" for layer, kv_head in heads)
    caption = (
        f"Sequence {sequence}, layer/KV head {names}: {len(shown)} of {total} tokens on a plane "
        f"({method}), from early (pale) to late (dark), with the {_CENTRES} centres that greedy "
        f"k-centre picks (green; SubGen Figure 1). Mean over all heads: {distances}."
    )
    if method == PCA:
        caption += " With scikit-learn (pip install 'kvsim[tsne]') it is t-SNE, as in the paper."
    panels = cache(partial(_panels, path, sequence, heads, shown, embed))
    return [Drawing(NAME, TITLE, caption, f"{method}: {distances}", partial(_draw, panels))]


def _heads(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Layers from the first to the last, each with another of its KV heads: (layer, KV head)."""
    layers = sorted(rows["layer"].unique())
    places = np.linspace(0, len(layers) - 1, min(_MOST_LAYERS, len(layers))).round().astype(int)
    found = []
    for turn, place in enumerate(places):
        heads = sorted(rows[rows["layer"] == layers[place]]["kv_head"].unique())
        found.append((int(layers[place]), int(heads[turn % len(heads)])))
    return found


def _relative_radius(rows: pd.DataFrame, of: str) -> float:
    """The mean over heads with _CENTRES centres, or the most that there are."""
    rows = rows[(rows["of"] == of) & (rows["k"] <= _CENTRES)]
    return float(rows[rows["k"] == rows["k"].max()]["relative_radius"].mean())


def _tokens(path: Path, sequence: str) -> tuple[np.ndarray, int]:
    """The tokens to draw, evenly spaced, and how many there are."""
    try:
        lengths = {text.name: text.num_tokens for text in Trace(path).sequences}
    except KvsimError as error:
        raise TraceError(f"{path} is no trace: {error}") from error
    if sequence not in lengths:
        raise TraceError(f"{path} has no sequence {sequence}")
    total = lengths[sequence]
    return np.linspace(0, total - 1, min(total, _MOST_TOKENS)).round().astype(int), total


def _panels(path: Path, sequence: str, heads: list, shown: np.ndarray, embed) -> list[_Panel]:
    panels = []
    trace = Trace(path)
    units = {head: trace.unit(sequence, *head) for head in heads}
    for of in ("key", "value"):
        for layer, kv_head in heads:
            points = getattr(units[layer, kv_head], of)[shown]
            centres = greedy_centres(points, _CENTRES)
            panels.append(_Panel(of, layer, kv_head, embed(points), centres))
    return panels


def _draw(panels_of, theme: Theme, shape: Shape) -> Figure:
    panels = panels_of()
    count = len(panels) // 2
    # Keys above values; next to them where there is no width for the layers.
    rows, columns = (count, 2) if shape.narrow else (2, count)
    side = min(shape.width / columns, 1.9)
    figure = Figure(figsize=(shape.width, rows * side + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip((grid.T if shape.narrow else grid).flat, panels):
        age = np.linspace(0.3, 1, len(panel.places))
        colors = [mix(theme.paper, theme.ink, share) for share in age]
        axes.scatter(*panel.places.T, s=2.5, c=colors, linewidths=0, rasterized=True)
        axes.scatter(
            *panel.places[panel.centres].T,
            s=16,
            color=_CENTRE_COLOR[theme.index],
            edgecolors=theme.paper,
            linewidths=0.5,
        )
        axes.set_title(f"{panel.of}s {panel.layer}/{panel.kv_head}")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[["top", "right"]].set_visible(True)
    return figure
