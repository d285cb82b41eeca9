"""Draws how alike the replay and the running model rank policies, and lists the numbers."""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...closed_loop.prediction import ALL_BUDGETS, SERIOUS
from ..numbers.closed_loop import ClosedLoop
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..style import MARKERS, Shape, Theme
from . import Drawing, Missing, Plan, Table, without_reference
from .closed_loop import command, first_command

NAME, TITLE = "prediction", "Does replay predict it?"
_METRICS = {
    "calibrated_kl": "calibrated KL",
    "predicted_kl": "predicted KL",
    "projected_error": "projected error",
    "output_error_sq": "squared error",
    "output_error_mean": "relative error",
    "attention_recall": "recall",
    "miss_rate": "miss rate",
}
_OUTCOMES = {"kl_mean": "KL", "delta_nll": "increase of NLL", "answers_share": "answers"}
_AMONG = {"all": "all policies", "serious": "serious policies"}


def plan(comparison: Comparison) -> list[Plan]:
    closed = ClosedLoop(comparison)
    if not comparison.has_reference:
        return [without_reference(comparison, NAME, TITLE)]
    if not closed.loops:
        why = "It needs rows of the running model in addition to those of the replay."
        return [Missing(NAME, TITLE, why, first_command(comparison))]
    found = closed.correlations
    shown = found[(found["loop"] == closed.loop) & found["spearman"].notna()]
    if shown.empty:
        why = "It needs three policies at one budget that the running model tells apart."
        return [Missing(NAME, TITLE, why, command(comparison, f"--loop {closed.loop}"))]
    tables = tuple(_table(found, loop) for loop in closed.loops)
    draw = partial(_draw, shown)
    return [Drawing(NAME, TITLE, _caption(closed, shown), _alt(shown), draw, tables=tables)]


def _caption(closed: ClosedLoop, shown: pd.DataFrame) -> str:
    texts = int(shown["texts"].max())
    text = (
        "Spearman's rank correlation, over policies, of the metrics of the replay with what the "
        f"running model loses ({closed.loop} loop), per text, the mean over {texts} "
        f"{'text' if texts == 1 else 'texts'}. +1: the metric ranks policies as the running model "
        "does, 0: as chance does."
    )
    if (shown["among"] == "serious").any():
        text += f" Hollow marks: {', '.join(SERIOUS)} alone, as far as they are in the file."
    if ALL_BUDGETS in set(shown["budget"]):
        text += " Over all budgets together, most of the rank is that of the budget."
    text += " " + _bars(texts)
    return text + "".join(f" {note}" for note in shown.attrs.get("notes", []))


def _bars(texts: int) -> str:
    if texts == 1:
        return "One text gives no intervals."
    return (
        f"Bars: 95% intervals of the bootstrap over {texts} texts; one that contains 0 does not "
        "tell the metric from chance."
    )


def _alt(shown: pd.DataFrame) -> str:
    rows = shown[shown["outcome"] == shown["outcome"].iloc[0]]
    outcome = _OUTCOMES[rows["outcome"].iloc[0]]
    return f"Rank correlation with {outcome}: " + "; ".join(
        f"{_AMONG[among]}, {budget}: "
        + ", ".join(f"{_METRICS[r.metric]} {r.spearman:.2f}" for r in group.itertuples())
        for (among, budget), group in rows.groupby(["among", "budget"], sort=False)
    )


def _table(found: pd.DataFrame, loop: str) -> Table:
    rows = found[found["loop"] == loop]
    outcomes = [name for name in _OUTCOMES if name in set(rows["outcome"])]
    lines = []
    for (budget, among, metric), group in rows.groupby(["budget", "among", "metric"], sort=False):
        cells = group.set_index("outcome").reindex(outcomes)
        numbers = [_cell(row) for _, row in cells.iterrows()]
        lines.append((budget, among, metric, numbers))
    order = {budget: place for place, budget in enumerate(rows["budget"].unique())}
    lines.sort(key=lambda line: (order[line[0]], line[1]))
    texts, points = int(rows["texts"].max()), rows.groupby(["budget", "among"])["points"].max()
    return Table(
        f"Spearman's rank correlations, {loop} loop, {texts} {'text' if texts == 1 else 'texts'}",
        ("budget", "among", "metric", *(_OUTCOMES[name] for name in outcomes)),
        tuple(
            (
                (budget, ""),
                (_AMONG[among], f"{points[budget, among]} points"),
                (_METRICS[metric], ""),
                *numbers,
            )
            for budget, among, metric, numbers in lines
        ),
    )


def _cell(row: pd.Series) -> tuple[str, str]:
    if pd.isna(row["spearman"]):
        return "–", ""
    return f"{row['spearman']:.2f}".replace("-", "−"), span(row["low"], row["high"], 2)


def _draw(shown: pd.DataFrame, theme: Theme, shape: Shape) -> Figure:
    outcomes = [name for name in _OUTCOMES if name in set(shown["outcome"])]
    budgets = list(shown["budget"].unique())
    metrics = [name for name in _METRICS if name in set(shown["metric"])]
    panels = (len(outcomes), 1) if shape.narrow else (1, len(outcomes))
    lines = len(budgets) * (len(metrics) * shown["among"].nunique() + 1)
    height = 0.085 * lines * panels[0] + 0.5 * panels[0] + 0.6
    figure = Figure(figsize=(shape.width, height), layout="constrained")
    grid = figure.subplots(*panels, sharex=True, sharey=True, squeeze=False)
    for axes, outcome in zip(grid.ravel(), outcomes):
        _panel(axes, shown[shown["outcome"] == outcome], budgets, metrics, theme)
        axes.set_title(_OUTCOMES[outcome], loc="left")
    for axes in grid[-1]:
        axes.set_xlabel("Spearman (−1 to 1)")
    for axes in grid[:, 0]:
        axes.set_ylabel("budget (as requested)")
    figure.legend(
        handles=_legend(shown, metrics, theme),
        loc="outside upper left",
        ncols=2 if shape.narrow else 5,
        frameon=False,
    )
    return figure


def _panel(
    axes: Axes, rows: pd.DataFrame, budgets: list[str], metrics: list[str], theme: Theme
) -> None:
    among = [name for name in _AMONG if name in set(rows["among"])]
    count = len(metrics) * len(among)
    for row in rows.itertuples():
        place = metrics.index(row.metric) * len(among) + among.index(row.among)
        height = budgets.index(row.budget) + (place - (count - 1) / 2) / (count + 1)
        color = _color(row.among, theme)
        axes.plot([row.low, row.high], [height] * 2, color=color, lw=0.9, solid_capstyle="butt")
        axes.plot([row.spearman], [height], **_mark(row.metric, row.among, metrics, theme))
    axes.axvline(0, color=theme.muted, lw=1, zorder=1.5)
    for place in range(1, len(budgets)):
        axes.axhline(place - 0.5, color=theme.grid, lw=0.6, zorder=1)
    axes.set_xlim(-1.05, 1.05)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−0.5", "0", "0.5", "1"])
    axes.set_ylim(len(budgets) - 0.5, -0.5)
    axes.set_yticks(range(len(budgets)), budgets)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def _color(among: str, theme: Theme) -> str:
    return theme.ink if among == "all" else theme.muted  # a colour would suggest a policy


def _mark(metric: str, among: str, metrics: list[str], theme: Theme) -> dict[str, object]:
    color = _color(among, theme)
    return {
        "color": color,
        "linestyle": "none",
        "marker": MARKERS[metrics.index(metric)],
        "markersize": 4.5,
        "markeredgecolor": color,
        "markerfacecolor": color if among == "all" else theme.paper,
    }


def _legend(shown: pd.DataFrame, metrics: list[str], theme: Theme) -> list[Line2D]:
    marks = [
        Line2D([], [], label=_METRICS[metric], **_mark(metric, "all", metrics, theme))
        for metric in metrics
    ]
    if shown["among"].nunique() > 1:
        for among, label in _AMONG.items():
            mark = _mark(metrics[0], among, metrics, theme) | {"marker": "h"}  # of no metric
            marks.append(Line2D([], [], label=label, **mark))
    return marks
