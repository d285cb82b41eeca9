"""The page of results, index.html: the same submissions give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2
import pandas as pd

from kvsim.results.task_scores import WITHIN_REACH

from .submission import Submission
from .summary import REFERENCE, Estimate, Row, kl_rows, marked, task_rows

# What the page shows first where scripts run, if there are such rows.
FIRST = {"loop": "adaptive", "budget": "10%"}


def page(submissions: Sequence[Submission]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    of_kl, of_tasks = kl_rows(submissions), task_rows(submissions)
    rows = [*of_kl, *of_tasks]
    models = {row.model_id: row.model for row in rows}
    return environment.get_template("page.html").render(
        kl=of_kl,
        tasks=of_tasks,
        models={each: f"{name} ({each[:8]})" for each, name in models.items()},
        choices=choices(rows),
        submissions=[about(each) for each in submissions],
        excused={each.name for each in submissions if each.about["exception"]},
        reference=REFERENCE,
        reach=WITHIN_REACH,
        marked=marked,
        number=number,
        signed=signed,
        ends=ends,
        megabytes=lambda value: "" if pd.isna(value) else f"{value / 1e6:.2f}",
        count=lambda value: "" if pd.isna(value) else f"{value:,.0f}",
        right=right,
    )


def choices(rows: Sequence[Row]) -> dict[str, tuple[list[str], str]]:
    """By what rows are chosen by: the values in the order of the rows, and the first shown."""
    found = {}
    for name in ("loop", "mode", "budget", "task"):
        values = list(dict.fromkeys(value for row in rows if (value := getattr(row, name))))
        first = FIRST.get(name, "")
        found[name] = (values, first if first in values else "")
    return found


def number(value: Estimate) -> str:
    return f"{value.mean:.4f}"


def signed(value: Estimate) -> str:
    return "" if pd.isna(value.mean) else f"{value.mean:+.4f}"


def ends(value: Estimate) -> str:
    return "" if pd.isna(value.low) else f"{value.low:.4f} to {value.high:.4f}"


def right(row: Row) -> tuple[str, str]:
    """Answers that are right, and of how many with the full cache; "" where none are asked."""
    if not row.answers:
        return "", ""
    values = (row.answers_right, row.answers, row.answers_right_full)
    some, whole, full = (f"{round(value, 1):g}" for value in values)
    return f"{some} of {whole}", f"full cache: {full}"


def about(submission: Submission) -> dict[str, object]:
    """What the page says of a file."""
    frames = submission.measured.values()

    def values(name: str) -> list[str]:
        found = {value for frame in frames if name in frame for value in frame[name].dropna()}
        return sorted(found)

    started = sorted(str(value)[:10] for value in submission.runs.get("started", []))
    measured = "" if not started else started[0]
    if measured and started[-1] != measured:
        measured += f" to {started[-1]}"
    return {
        **submission.about,
        "name": submission.name,
        "measured": measured,
        "versions": values("kvsim_version"),
        "devices": values("device"),
        "texts_read": len(values("text_id")),
        "commands": sorted(set(submission.runs.get("command", []))),
    }
