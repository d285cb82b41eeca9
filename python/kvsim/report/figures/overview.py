"""Draws how policies stand at the chosen budget: a row each, the best first, with intervals."""

import html
import math
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from ...results.columns import better
from ..numbers.closed_loop import ClosedLoop
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..numbers.standing import OF_THE_MODEL, Standing, of_model, of_replay
from ..numbers.tasks import Tasks
from ..style import Shape, Theme
from . import Drawing, Plan, Table, curves, dot_style, explore, marker_size
from .measures import ERRORS, SHARES

NAME, TITLE = "overview", "Overview"
_LABELS = {name: label for name, (_, _, label, _) in (ERRORS | SHARES).items()}
_LABELS |= {OF_THE_MODEL.measure: "KL of the running model (nats per token)"}
_BEYOND = "▸"  # on the right of what leaves the axis


def plan(comparison: Comparison) -> list[Plan]:
    """The running model decides where it ran at this budget; the replay does elsewhere."""
    replay = of_replay(comparison)
    closed = ClosedLoop(comparison)
    model = of_model(closed)
    where = f"{comparison.budget_name(comparison.point)} per KV head"
    standing = model or replay
    if standing is None:
        return []
    text = caption(standing, where)
    if model:
        text += f" The model runs with each policy ({closed.loop} loop), which decides."
        lacking = 0 if replay is None else len(set(replay.rivals) - set(model.rivals))
        if lacking:
            text += f" {lacking} {'policies have' if lacking > 1 else 'policy has'} no rows of "
            text += "the running model on the same texts at this budget, and no place here."
    if len(standing.shown) < len(standing.rows):
        text += f" Drawn are {len(standing.shown)} of {len(standing.rows)} policies; the table "
        text += "below has all."
    tables = tuple(table(each, where) for each in (model, replay) if each is not None)
    return [drawing(standing, where, text, _LABELS, comparison, tables)]


def drawing(
    standing: Standing,
    where: str,
    caption: str,
    labels: dict[str, str],
    comparison: Comparison | Tasks,
    tables: tuple[Table, ...],
) -> Drawing:
    """The figure; `labels` names the axis of a measure, and the legend of `comparison` has the
    colours."""
    label = labels[standing.ranking.measure]
    alt = f"{label} at {where}: " + ", ".join(
        f"{standing.styles[spec].label} {_value(standing, spec)}" for spec in standing.shown
    )
    moving = _explore(standing, label, comparison)
    draw = partial(_draw, standing, label)
    return Drawing(NAME, TITLE, caption, alt, draw, moving, tables, standing.finding)


def caption(standing: Standing, where: str) -> str:
    """What the figure shows and how to read it."""
    ranking, count = standing.ranking, standing.samples
    text = f"{ranking.name[0].upper()}{ranking.name[1:]} at {where}: {better(ranking.measure)}."
    if count > 1:
        text += f" Lines: 95% intervals over {count} {standing.sampled}, each for itself, not "
        text += "corrected for the number of policies."
    if standing.is_enough and len(standing.alike) > 1:
        text += " Bold: policies that are not distinguishable from the best, since the interval of "
        text += "the difference contains 0."
    grey = standing.rows.index[~standing.rows["is_rival"]]
    if set(grey) & set(standing.shown):
        text += " Hollow: what does not compete, oracles and what holds more than the budget."
    if _top(standing) < math.inf:
        text += f" {_BEYOND}: beyond the axis."
    return text


def table(standing: Standing, where: str) -> Table:
    """All policies with their values and how much more each has than the best one."""
    ranking, best = standing.ranking, standing.best
    lines = []
    for spec, row in standing.rows.iterrows():
        more = standing.difference(spec, best)
        digits = ranking.decimals(more[0], 4)
        lines.append(
            (
                (standing.styles[spec].label, "" if row["is_rival"] else "does not compete"),
                (_number(row["value"], ranking.decimals(row["value"], 4)), _ends(standing, spec)),
                ("–", "") if spec == best else (_signed(more[0], digits), span(*more[1:], digits)),
                ("" if spec == best else _verdict(standing, spec), ""),
            )
        )
    name = standing.styles[best].label
    head = ("policy", ranking.name, f"more than {name}", "verdict")
    return Table(f"{ranking.name[0].upper()}{ranking.name[1:]} at {where}", head, tuple(lines))


def _verdict(standing: Standing, spec: str) -> str:
    """Whether a policy differs from the best one, as far as the samples say."""
    if not standing.is_enough:
        return "too few samples"
    return "distinguishable" if standing.is_apart(spec) else "not distinguishable"


def _number(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


def _signed(value: float, digits: int) -> str:
    return ("+" if round(value, digits) > 0 else "") + _number(value, digits)


def _ends(standing: Standing, spec: str) -> str:
    row = standing.rows.loc[spec]
    return span(row["low"], row["high"], standing.ranking.decimals(row["value"], 3))


def _value(standing: Standing, spec: str) -> str:
    value = standing.rows.loc[spec, "value"]
    digits = standing.ranking.decimals(value, 3)
    return f"{_number(value, digits)} {_ends(standing, spec)}".strip()


def _top(standing: Standing) -> float:
    """The end of the axis, so that a few large losses do not flatten the others."""
    if not standing.ranking.is_loss:
        return math.inf
    rows = standing.rows.loc[standing.shown]
    grey = set(rows.index[~rows["is_rival"]])
    return curves.axis_end(rows["high"].fillna(rows["value"]), grey)


def _beyond(standing: Standing, spec: str, top: float) -> str:
    """What stands at the end of the axis for a value or an interval that leaves it."""
    value = standing.rows.loc[spec, "value"]
    number = _number(value, standing.ranking.decimals(value, 3))
    return _BEYOND if value <= top else f"{number} {_BEYOND}"


def _is_bold(standing: Standing, spec: str) -> bool:
    return standing.is_enough and len(standing.rivals) > 1 and spec in standing.alike


def _draw(standing: Standing, label: str, theme: Theme, shape: Shape) -> Figure:
    shown, top = standing.shown, _top(standing)
    figure = Figure(figsize=(shape.width, 0.22 * len(shown) + 0.6), layout="constrained")
    axes = figure.add_subplot()
    for place, spec in enumerate(shown):
        row, style = standing.rows.loc[spec], standing.styles[spec]
        color = style.color(theme)
        ends = [min(row["low"], top), min(row["high"], top)]
        axes.plot(ends, [place] * 2, color=color, lw=1.6, alpha=0.75, solid_capstyle="butt")
        if row["value"] <= top:
            dot = dot_style(style, theme) | {"markersize": marker_size(style, 1.3)}
            if not row["is_rival"]:
                dot |= {"markerfacecolor": theme.paper, "markeredgecolor": color}
            axes.plot([row["value"]], [place], **dot)
        if max(row["value"], row["high"]) > top:
            text = _beyond(standing, spec, top)
            where = {"ha": "right", "va": "center_baseline", "fontsize": 7.5, "color": color}
            where["bbox"] = {"facecolor": theme.paper, "edgecolor": "none", "pad": 1}
            axes.text(1, place, text, transform=axes.get_yaxis_transform(), **where)
    if top < math.inf:
        axes.set_xlim(right=top * 1.02)
    names = axes.set_yticks(range(len(shown)), [standing.styles[spec].label for spec in shown])
    for spec, tick in zip(shown, names):
        tick.label1.set_fontweight("bold" if _is_bold(standing, spec) else "normal")
        tick.label1.set_color(theme.ink if standing.rows.loc[spec, "is_rival"] else theme.muted)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(label)
    return figure


def _explore(standing: Standing, label: str, comparison: Comparison | Tasks) -> dict:
    top = _top(standing)
    data, names, notes = [], [], []
    for place, spec in enumerate(standing.shown):
        row, style = standing.rows.loc[spec], standing.styles[spec]
        name, color = html.escape(style.label), explore.color(comparison, style)
        symbol = explore.SYMBOLS[style.marker] + ("" if row["is_rival"] else "-open")
        text = f"<b>{name}</b><br>%{{x:.4g}}"
        dot: dict[str, object] = {
            "type": "scatter", "mode": "markers", "name": name, "showlegend": False,
            "x": explore.numbers([row["value"]]), "y": [place],
            "marker": {"symbol": symbol, "size": 10, "color": color},
        }  # fmt: skip
        if not pd.isna(row["low"]):
            text += "<br>[%{customdata[0]:.4g}, %{customdata[1]:.4g}]"
            above, below = row["high"] - row["value"], row["value"] - row["low"]
            bars = {"symmetric": False, "array": explore.numbers([above]), "thickness": 2}
            bars |= {"arrayminus": explore.numbers([below]), "width": 0, "color": color}
            dot |= {"error_x": bars, "customdata": [explore.numbers([row["low"], row["high"]])]}
        if max(row["value"], row["high"]) > top:
            note = {"text": _beyond(standing, spec, top), "x": 1, "y": place, "xref": "paper"}
            notes.append(
                note
                | {
                    "xanchor": "right",
                    "showarrow": False,
                    "bgcolor": "var(--paper)",
                    "font": {"color": color},
                }
            )
        data.append(dot | {"hovertemplate": f"{text}<extra></extra>"})
        names.append(f"<b>{name}</b>" if _is_bold(standing, spec) else name)
    across: dict[str, object] = {"title": {"text": label}}
    if top < math.inf:
        low = min(0.0, float(standing.rows["low"].min()))
        across["range"] = [low - 0.02 * top, top * 1.02]
    places = list(range(len(names)))
    down = {"tickvals": places, "ticktext": names, "range": [len(names) - 0.5, -0.5]}
    down |= {"showgrid": False, "fixedrange": True}
    layout = {"xaxis": across, "yaxis": down, "annotations": notes}
    return {"data": data, "layout": layout | {"height": 110 + 24 * len(names)}}
