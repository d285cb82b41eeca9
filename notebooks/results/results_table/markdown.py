"""The same means as table.md, which code hosts show where they do not show a page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .submission import Submission
from .summary import Row, kl_rows, task_rows

_HEAD = """# Results

Written by `build.py` from [submissions](submissions); [index.html](index.html) has the intervals of
differences, bytes, sources and filters, and [README.md](README.md) says how to add yours. In
brackets: 95% intervals over texts.
"""


def markdown(submissions: Sequence[Submission]) -> str:
    parts = [_HEAD]
    for (model, loop, mode), rows in groupby(
        kl_rows(submissions), key=lambda row: (row.model, row.loop, row.mode)
    ):
        title = f"{model}, {loop} loop, {mode}: KL in nats per token, less is better"
        parts.append(_table(title, list(rows)))
    for (model, task, length, question, mode), rows in groupby(
        task_rows(submissions),
        key=lambda row: (row.model, row.task, row.length, row.question, row.mode),
    ):
        listed = list(rows)
        title = f"{model}, {task}, {length} tokens, {question}, {mode}: score, more is better"
        if not listed[0].in_reach:
            title += "; below the model's reach"
        parts.append(_table(title, listed))
    return "\n".join(parts)


def _table(title: str, rows: list[Row]) -> str:
    """A row per policy, a column per budget."""
    budgets = list(dict.fromkeys(row.budget for row in rows))
    cells: dict[str, dict[str, list[str]]] = {}
    # Rows come by budget and value: the budget of most rows decides the order.
    first = max(budgets, key=lambda budget: sum(row.budget == budget for row in rows))
    for row in sorted(rows, key=lambda row: row.budget != first):
        shown = f"{row.measure.mean:.4f} [{row.measure.low:.4f}, {row.measure.high:.4f}]"
        cells.setdefault(row.name, {}).setdefault(row.budget, []).append(shown)
    lines = [f"## {_text(title)}", ""]
    lines.append(f"| policy | {' | '.join(map(_text, budgets))} |")
    lines.append(f"| --- |{' ---: |' * len(budgets)}")
    for name, of_budgets in cells.items():
        values = ["<br>".join(of_budgets.get(budget, [])) for budget in budgets]
        lines.append(f"| {_text(name)} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """As Markdown shows it, in a table too."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#&" else c for c in kept)
