"""Draws the scores of policies at tasks: a panel per task, a bar per policy, with intervals."""

import html
import textwrap
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...results.task_scores import WITHIN_REACH
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..numbers.scores import Scores
from ..numbers.selection import best_of
from ..numbers.standing import of_tasks
from ..numbers.tasks import FULL, Tasks
from ..style import Shape, Theme
from . import Drawing, Missing, Plan, Table, explore, needles, overview

NAME, TITLE = "tasks", "Scores of tasks"
_LABEL = "score (share of right answers, 0–1)"
_MEAN = "mean"
_HATCH = "////"
ASKED = {
    "unseen": "The context alone is compressed, then the question is asked.",
    "after": "The context and the first question after it are compressed together.",
    "before": "The first question is read before the context, and asked again after it.",
    "turns": "The context alone is compressed; one cache goes on through all questions.",
}


def plan(comparison: Comparison) -> list[Plan]:
    """The figures on a page of the replay."""
    tasks = Tasks.of(comparison)
    if tasks is None:
        policies = ";".join(comparison.policies)
        command = (
            f"python -m kvsim.tasks evaluate MODEL --texts FILE.jsonl --policies '{policies}' "
            f"--budgets {','.join(comparison.points.index)} -o {comparison.results.path}"
        )
        return [Missing(NAME, TITLE, "The file has no answers to tasks.", command)]
    return _plans(tasks, "".join(f" {note}" for note in tasks.notes))


def plans_of(tasks: Tasks) -> list[Plan]:
    """The figures of a page of tasks alone, which begins with how policies stand."""
    standing = of_tasks(tasks)
    plans = _plans(tasks, "")
    if standing is None:
        return plans
    where = f"{tasks.budget_name}, question {tasks.question}"
    caption = overview.caption(standing, where)
    caption += _of_reach(tasks.scores[tasks.question], "Left out are tasks")
    labels = {standing.ranking.measure: "mean score of tasks (share of right answers, 0–1)"}
    tables = (overview.table(standing, where),)
    return [overview.drawing(standing, where, caption, labels, tasks, tables), *plans]


def _plans(tasks: Tasks, notes: str) -> list[Plan]:
    plans: list[Plan] = []
    for question, scores in tasks.scores.items():
        if not scores.tasks:
            continue
        plans.append(_scores(tasks, question, scores, "" if plans else notes))
        plans += needles.plan(tasks, question, scores)
    return plans


def _scores(tasks: Tasks, question: str, scores: Scores, notes: str) -> Drawing:
    order = _order(tasks, scores)
    shown = order if tasks.choice.policies else _few(order, tasks)
    caption = f"The share of answers that are right, at {tasks.budget_name}; question {question}: "
    caption += f"{ASKED.get(question, 'as the rows name it.')} {_of_score(scores)}"
    caption += (
        _of_reach(scores, "Grey, hatched, and left out of the mean: tasks")
        + _bars(scores)
        + _of_rows(tasks, scores)
    )
    if others := [point for point in tasks.points.index if point != tasks.point]:
        caption += f" Other budgets of the file: {', '.join(others)} (--budget)."
    if len(shown) < len(order):
        caption += f" Drawn are {len(shown)} of {len(order)} policies; the table has all."
    alt = f"Scores at {tasks.budget_name}, question {question}. " + "; ".join(
        f"{name}: " + ", ".join(f"{tasks.styles[spec].label} {value:.2f}" for spec, value in found)
        for name, found in _in_words(scores, shown)
    )
    title = f"{TITLE}, question {question}"
    tables = (_table(tasks, question, scores, order),)
    draw = partial(_draw, tasks, scores, shown)
    moving = _explore(tasks, scores, shown)
    return Drawing(f"{NAME}-{question}", title, caption + notes, alt, draw, moving, tables)


def _order(tasks: Tasks, scores: Scores) -> list[str]:
    """All policies: `full`, then by their mean over tasks; those that lack a task at the end."""
    ranked = [spec for spec in scores.means.index if spec != FULL]
    there = list(scores.of_tasks.index.unique("policy"))
    first = [FULL] if FULL in there else []
    return [*first, *ranked, *(s for s in sorted(there) if s not in {FULL, *ranked})]


def _few(order: list[str], tasks: Tasks) -> list[str]:
    is_rival = pd.Series({spec: spec not in tasks.oracles for spec in order})
    full = order[:1] if order[0] == FULL else []
    return [*full, *best_of(order[len(full) :], is_rival)]


def _of_score(scores: Scores) -> str:
    if scores.generated == 1:
        return "An answer is right if the text that the model generates contains it."
    right = "An answer is right if each of its tokens is the most likely one."
    if scores.generated > 0:
        right += " Where the model generated text, it is right if that contains it: scores of the "
        right += "two kinds do not compare."
    return right


def _of_reach(scores: Scores, called: str) -> str:
    if not scores.has_full:
        return " The file has no rows of the full cache, so it does not say which tasks the model "\
            "can do."  # fmt: skip
    if not scores.below:
        return ""
    return (
        f" {called} below the model's reach, in which the full cache scores less than "
        f"{WITHIN_REACH}: {', '.join(scores.below)}."
    )


def _bars(scores: Scores) -> str:
    counts = sorted({scores.texts_of(task) for task in scores.tasks})
    texts = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if scores.of_tasks["low"].isna().all():
        return f" {texts} text{'' if counts == [1] else 's'} per task, too few for intervals."
    return f" Lines: 95% intervals over {texts} texts per task, the mean over turns of each."


def _of_rows(tasks: Tasks, scores: Scores) -> str:
    """What is left out of the figure."""
    text = ""
    if scores.left_out:
        names = [f"{tasks.styles[spec].label} at {task}" for spec, task in scores.left_out]
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        text = " Left out, because they did not answer the same texts as the others: "
        text += f"{', '.join(names[:6])}{more}."
    if scores.without_score:
        text += f" Rows without an answer to compare: {scores.without_score}."
    return text


def _panels(scores: Scores) -> list[str]:
    """The mean, where it is of several tasks, then tasks in reach, then those below it."""
    several = len(scores.in_reach) > 1
    return [_MEAN] * several + scores.in_reach + scores.below


def _rows_of(scores: Scores, name: str) -> pd.DataFrame:
    """By policy: score, low, high of a panel."""
    is_mean = name == _MEAN and len(scores.in_reach) > 1
    return scores.means if is_mean else scores.of_tasks.xs(name, level="task")


def _in_words(scores: Scores, shown: list[str]) -> list[tuple[str, list[tuple[str, float]]]]:
    found = []
    for name in _panels(scores):
        rows = _rows_of(scores, name)["score"]
        title = f"{name}, below the model's reach" if name in scores.below else name
        found.append((title, [(spec, rows[spec]) for spec in shown if spec in rows.index]))
    return found


def _table(tasks: Tasks, question: str, scores: Scores, order: list[str]) -> Table:
    """All policies."""
    panels = _panels(scores)
    below = {name: f"{name} (below reach)" for name in scores.below}
    lines = []
    for spec in order:
        cells = [_cell(_rows_of(scores, name), spec) for name in panels]
        lines.append(((tasks.styles[spec].label, ""), *cells))
    head = ("policy", *(below.get(name, name) for name in panels))
    return Table(f"Scores at {tasks.budget_name}, question {question}", head, tuple(lines))


def _cell(rows: pd.DataFrame, spec: str) -> tuple[str, str]:
    if spec not in rows.index:
        return "–", ""
    row = rows.loc[spec]
    return f"{row['score']:.3f}", span(row["low"], row["high"], 3)


def _draw(tasks: Tasks, scores: Scores, shown: list[str], theme: Theme, shape: Shape) -> Figure:
    panels = _panels(scores)
    across = min(len(panels), 2 if shape.narrow else 4)
    down = -(-len(panels) // across)
    height = down * (0.16 * len(shown) + 0.45) + 0.4
    figure = Figure(figsize=(shape.width, height), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for place, (axes, name) in enumerate(zip(grid.ravel(), panels)):
        # The last panel of a column may stand above an empty place.
        axes.tick_params(labelbottom=place + across >= len(panels))
        _panel(axes, tasks, scores, name, shown, theme)
        width = int(13 * shape.width / across)  # characters
        says = f"{name}\nbelow the model's reach" if name in scores.below else name
        lines = [textwrap.fill(line, width) for line in says.splitlines()]
        color = theme.muted if name in scores.below else theme.ink
        weight = "bold" if name == _MEAN else "normal"
        axes.set_title("\n".join(lines), loc="left", color=color, fontweight=weight, fontsize=7.5)
    for axes in grid.ravel()[len(panels) :]:
        axes.set_visible(False)
    grid[0, 0].set_yticks(range(len(shown)), [tasks.styles[spec].label for spec in shown])
    grid[0, 0].set_ylim(len(shown) - 0.5, -0.5)
    grid[0, 0].set_xlim(0, 1)
    grid[0, 0].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    grid[-1, 0].set_xlabel(_LABEL, loc="left")  # of all panels
    return figure


def _panel(
    axes: Axes, tasks: Tasks, scores: Scores, name: str, shown: list[str], theme: Theme
) -> None:
    rows = _rows_of(scores, name)
    for place, spec in enumerate(shown):
        if spec not in rows.index:
            continue
        row = rows.loc[spec]
        color = tasks.styles[spec].color(theme)
        look: dict[str, object] = {"color": color}
        if name in scores.below:
            look = {"facecolor": theme.shade, "edgecolor": theme.muted, "hatch": _HATCH, "lw": 0.6}
        axes.barh(place, row["score"], height=0.66, **look)
        ends = [row["low"], row["high"]]
        axes.plot(ends, [place] * 2, color=theme.paper, lw=2.4, solid_capstyle="butt")
        axes.plot(ends, [place] * 2, color=theme.ink, lw=0.9, solid_capstyle="butt")
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def _explore(tasks: Tasks, scores: Scores, shown: list[str]) -> dict:
    panels = _panels(scores)
    names = [
        html.escape(name) + ("<br>(below reach)" if name in scores.below else "") for name in panels
    ]
    data = []
    for spec in shown:
        rows = [_rows_of(scores, name) for name in panels]
        cells = pd.DataFrame([each.loc[spec] if spec in each.index else {} for each in rows])
        cells = cells.reindex(columns=["score", "low", "high"]).astype(float)
        style, label = tasks.styles[spec], html.escape(tasks.styles[spec].label)
        color = explore.color(tasks, style)
        below = [name in scores.below for name in panels]
        text = f"<b>{label}</b><br>%{{x}}: %{{y:.3f}}"
        bars: dict[str, object] = {
            "type": "bar", "name": label, "x": names, "y": explore.numbers(cells["score"]),
            "marker": {"color": ["var(--muted)" if each else color for each in below],
                       "pattern": {"shape": ["/" if each else "" for each in below]}},
        }  # fmt: skip
        if cells["low"].notna().any():
            text += "<br>[%{customdata[0]:.3f}, %{customdata[1]:.3f}]"
            above, under = cells["high"] - cells["score"], cells["score"] - cells["low"]
            ends = {"symmetric": False, "array": explore.numbers(above), "thickness": 1}
            bars["error_y"] = ends | {"arrayminus": explore.numbers(under), "width": 0}
            bars["customdata"] = list(
                zip(explore.numbers(cells["low"]), explore.numbers(cells["high"]))
            )
        data.append(bars | {"hovertemplate": f"{text}<extra></extra>"})
    layout = {"barmode": "group", "yaxis": {"title": {"text": _LABEL}, "range": [0, 1.02]}}
    return {"data": data, "layout": layout | {"xaxis": {"type": "category", "showgrid": False}}}
