"""Draws where the running model loses: KL by the kind of the predicted token, along the text."""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ...results.columns import better
from ..numbers.closed_loop import ClosedLoop
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..numbers.losses import kl_along_text, kl_by_kind
from ..numbers.selection import sentence
from ..style import Shape, Theme
from . import Drawing, Missing, Plan, Table, curves, dot_style, line_style, marker_size
from .closed_loop import command

MOST_KINDS = 6  # panels; the tables have all
_KINDS = ("kl-by-kind", "Where the loss is: by kind of token")
_ALONG = ("kl-along-text", "Where the loss is: along the text")
_LABEL = "KL (nats per token)"


def plan(comparison: Comparison) -> list[Plan]:
    closed = ClosedLoop(comparison)
    if not closed.loops:
        return []  # the figure of the closed loop says what adds rows
    return [_by_kind(closed), _along(closed)]


def _by_kind(closed: ClosedLoop) -> Plan:
    found = kl_by_kind(closed)
    kinds = list(found.index.unique("kind")) if len(found) else []
    if len(kinds) < 2:
        why = "No text has labelled spans: give the texts as JSON lines with spans."
        texts = "--texts FILE.jsonl"
        if not kinds:
            why, texts = "The rows of the running model have no kinds of tokens.", "--text FILE"
        again = command(closed.comparison, f"--loop {closed.loop}", texts)
        return Missing(*_KINDS, why, again)
    caption = (
        "How far the predictions of the running model with this policy are from those with the "
        "full cache, by the label of the span that holds the predicted token; text: no span. "
        f"{better('kl_mean').capitalize()}. The mean over texts, {closed.loop} loop."
    )
    if len(closed.points) > 1:
        caption += " A mark per budget, larger for a larger budget."
    texts = int(found["texts"].max())
    if found["kl_mean_low"].notna().any():
        caption += f" Bars: 95% intervals over {texts} texts."
    else:
        caption += f" {texts} text{'' if texts == 1 else 's'}, too few for intervals."
    caption += sentence(closed.comparison)
    at = found.xs(closed.point, level="point")["kl_mean"]
    at = at[at.index.get_level_values("policy").isin(closed.shown)]
    alt = f"KL by kind at {closed.budget_name(closed.point)}: " + "; ".join(
        f"{kind}: "
        + ", ".join(
            f"{closed.styles[spec].label} {value:.3g}"
            for spec, value in at.xs(kind, level="kind").sort_values().items()
        )
        for kind in kinds
    )
    tables = tuple(_table(closed, found, point) for point in closed.points.index)
    draw = partial(_draw_kinds, closed, found[found.index.isin(kinds[:MOST_KINDS], level="kind")])
    return Drawing(*_KINDS, caption, alt, draw, tables=tables)


def _table(closed: ClosedLoop, found: pd.DataFrame, point: str) -> Table:
    """All policies at one budget, in the order of their KL on all tokens."""
    rows = found.xs(point, level="point").unstack("kind")
    kinds = list(found.index.unique("kind"))
    order = closed.means["kl_mean"].xs(point, level="point").reindex(rows.index).sort_values()
    return Table(
        f"KL by kind of token at {closed.budget_name(point)}, nats per token, {closed.loop} loop",
        ("policy", *kinds),
        tuple(
            ((closed.styles[spec].label, ""), *(_cell(rows.loc[spec], kind) for kind in kinds))
            for spec in order.index
        ),
    )


def _cell(row: pd.Series, kind: str) -> tuple[str, str]:
    value, low, high = (row.get((f"kl_mean{end}", kind)) for end in ("", "_low", "_high"))
    return ("–", "") if pd.isna(value) else (f"{value:.4f}", span(low, high, 4))


def _draw_kinds(closed: ClosedLoop, found: pd.DataFrame, theme: Theme, shape: Shape) -> Figure:
    kinds = list(found.index.unique("kind"))
    points = list(closed.points.index)
    order = closed.means["kl_mean"].xs(closed.point, level="point").reindex(closed.shown)
    specs = list(order.sort_values(ascending=False, kind="stable").index)
    across = min(len(kinds), 2 if shape.narrow else 4)
    down = -(-len(kinds) // across)
    tall = max(0.17, 0.05 + 0.08 * len(points))  # of a policy's row, inches
    height = down * (tall * len(specs) + 0.35) + 0.45
    figure = Figure(figsize=(shape.width, height), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    sizes = [1.0] if len(points) == 1 else list(np.linspace(0.7, 1.2, len(points)))
    shifts = [0.08 / tall * (place - (len(points) - 1) / 2) for place in range(len(points))]
    for axes, kind in zip(grid.ravel(), kinds):
        of_kind = found.xs(kind, level="kind")
        for place, spec in enumerate(specs):
            style = closed.styles[spec]
            for point, size, shift in zip(points, sizes, shifts):
                if (spec, point) not in of_kind.index:
                    continue
                row, at = of_kind.loc[(spec, point)], [place + shift]
                ends = [row["kl_mean_low"], row["kl_mean_high"]]
                axes.plot(ends, at * 2, color=style.color(theme), lw=0.9, solid_capstyle="butt")
                dot = {**dot_style(style, theme), "markersize": marker_size(style, size)}
                axes.plot([row["kl_mean"]], at, **dot)
        axes.set_title(kind, loc="left")
    for axes in grid.ravel()[len(kinds) :]:
        axes.set_visible(False)
    top = curves.axis_end(found["kl_mean"].groupby("policy").max(), closed.oracles)
    if top != float("inf"):
        grid[0, 0].set_xlim(right=top)
    grid[0, 0].set_yticks(range(len(specs)), [closed.styles[spec].label for spec in specs])
    grid[0, 0].set_ylim(-0.6, len(specs) - 0.4)
    for axes in grid.ravel():
        axes.tick_params(axis="y", length=0)
    grid[-1, 0].set_xlabel(_LABEL, loc="left")  # of all panels
    return figure


def _along(closed: ClosedLoop) -> Plan:
    found = kl_along_text(closed, closed.point)
    if found.empty:
        why = "The file has no measurements of single steps at this budget."
        again = command(closed.comparison, f"--loop {closed.loop} --per-step")
        return Missing(*_ALONG, why, again)
    drawn = found[found.index.isin(closed.shown)]
    top = curves.axis_end(drawn.max(axis=1), closed.oracles)
    caption = (
        f"KL to the full model along the text at {closed.budget_name(closed.point)} per KV head: "
        f"the mean in each of {found.shape[1]} equal parts of a text, then over "
        f"{closed.texts_of('kl_mean')} texts, {closed.loop} loop."
    ).replace("over 1 texts", "over 1 text")
    beyond = [closed.styles[spec].label for spec in drawn.index[drawn.max(axis=1) > top]]
    caption += f" Beyond the axis in parts: {', '.join(beyond)}." if beyond else ""
    caption += sentence(closed.comparison)
    halves = drawn.T.groupby(drawn.columns > 0.5).mean().T
    alt = "KL in the first and second half of the text: " + ", ".join(
        f"{closed.styles[spec].label} " + " and ".join(f"{value:.3g}" for value in row)
        for spec, row in halves.iterrows()
    )
    tables = (_table_along(closed, found),)
    return Drawing(*_ALONG, caption, alt, partial(_draw_along, closed, drawn, top), tables=tables)


def _table_along(closed: ClosedLoop, found: pd.DataFrame) -> Table:
    """Of all policies, in quarters of the text, which a page has room for."""
    quarters = found.T.groupby([int(4 * middle) for middle in found.columns]).mean().T
    order = found.mean(axis=1).sort_values(kind="stable").index
    return Table(
        f"KL in quarters of the text at {closed.budget_name(closed.point)}, nats per token",
        ("policy", *(f"{25 * part}–{25 * part + 25}%" for part in quarters)),
        tuple(
            (
                (closed.styles[spec].label, ""),
                *(("–" if pd.isna(v) else f"{v:.4f}", "") for v in quarters.loc[spec]),
            )
            for spec in order
        ),
    )


def _draw_along(
    closed: ClosedLoop, drawn: pd.DataFrame, top: float, theme: Theme, shape: Shape
) -> Figure:
    figure = Figure(figsize=(shape.width, shape.height), layout="constrained")
    axes = figure.add_subplot()
    handles = []
    # Oracles below, so that they do not hide what competes.
    for place, spec in enumerate(sorted(drawn.index, key=lambda s: (s not in closed.oracles, s))):
        style = line_style(closed.styles[spec], theme)
        # Marks of two lines stand at different places.
        every = (place % 4, max(1, drawn.shape[1] // 8))
        axes.plot(drawn.columns, drawn.loc[spec], **style, markevery=every)
        handles.append(Line2D([], [], label=closed.styles[spec].label, **style))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, top if top != float("inf") else None)
    axes.yaxis.set_major_locator(MaxNLocator(5))  # the same ticks before and after the layout
    axes.set_xlabel("place in the text (share, 0–1)")
    axes.set_ylabel(_LABEL)
    columns = 2 if shape.narrow else 4
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False)
    return figure
