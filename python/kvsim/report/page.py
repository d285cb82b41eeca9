"""Writes the figure files and the page that shows them."""

import os
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
from matplotlib.markers import MarkerStyle
from plotly.offline import get_plotlyjs

from .._engine import version as engine_version
from ..bootstrap import DRAWS, FEWEST_SAMPLES
from ..files.partial import folder_aside, put_in_place
from ..results import Results
from .figures import (
    Drawing,
    Missing,
    Plan,
    closed_loop,
    curves,
    fetches,
    gap,
    granularity,
    heat,
    keys_and_values,
    loss_bytes,
    losses,
    maps,
    measured,
    overview,
    prediction,
    tasks,
)
from .numbers import fetches as fetched
from .numbers import tasks as answered
from .numbers.averages import WITH_INTERVAL
from .numbers.choice import Choice
from .numbers.fetches import Fetches
from .numbers.frames import Comparison
from .numbers.intervals import span
from .numbers.tasks import Tasks
from .open_loop import CLOSED_LOOP, OPEN_LOOP, open_loop
from .pictures import file_names, write_files
from .style import DARK, LIGHT, Style

_PLANS = (
    *(overview, curves, loss_bytes, gap, granularity, closed_loop, losses),
    *(prediction, tasks, heat, measured, fetches, keys_and_values, maps),
)
_ABSOLUTE = {  # measures without a natural scale, with what their column is called
    "calibrated_kl": ("calibrated KL", "nats"),
    "projected_error": ("projected error", "sum over layers"),
    "output_error_sq": ("squared error", "squared norm"),
    "predicted_kl": ("predicted KL", "nats"),
}
_EACH = "each for itself, not corrected for the number of policies"
_LIBRARY = "plotly.min.js"  # next to the page: too large for each page, and no network is needed


Shown = Comparison | Tasks | Fetches


def plans(comparison: Shown) -> list[Plan]:
    """All figures of the report, in order."""
    if isinstance(comparison, Fetches):
        return fetches.plans_of(comparison)
    if isinstance(comparison, Tasks):
        found = tasks.plans_of(comparison)
        if fetched.has_fetches(comparison.results):
            others = Fetches(comparison.results)
            found += fetches.plans_of(others, "".join(f" {note}" for note in others.notes))
        return found
    return [plan for module in _PLANS for plan in module.plan(comparison)]


def chosen(results: Results, choice: Choice) -> Shown:
    """What the report shows of a file: policies; where it has no replay, answers to tasks, or what
    is fetched where it has that alone."""
    is_swept = "replay" in results and not results["replay"].empty
    if not is_swept and answered.has_answers(results):
        answered.refuse_options(choice, results)
        return Tasks(results, choice)
    if is_swept or not fetched.has_fetches(results):
        return Comparison(results, choice)
    fetched.refuse_options(choice, results)
    return Fetches(results, choice)


def write_report(
    comparison: Shown,
    folder: Path,
    command: str = "",
    progress: Callable[[list[Drawing]], Iterable[Drawing]] = iter,
) -> list[Path]:
    """Writes `index.html`, the library that makes it explorable, and the files of the figures.

    `command` is what the page says that it was drawn by. `progress` passes on the figures while
    they are drawn. The page embeds its figures. Figures of an earlier report that are not drawn now
    are removed. Returns the paths of the files, the page first. Raises OSError if it cannot write:
    the earlier report is then as it was.
    """
    shown = plans(comparison)
    folder.mkdir(parents=True, exist_ok=True)
    # Draw everything in a temporary folder: an interrupted run leaves the earlier report intact.
    with folder_aside(folder, "report") as aside:
        drawings = [plan for plan in shown if isinstance(plan, Drawing)]
        pictures = [(drawing, write_files(drawing, aside)) for drawing in progress(drawings)]
        (aside / _LIBRARY).write_text(get_plotlyjs(), encoding="utf-8")
        page = _page(comparison, shown, pictures, command)
        (aside / "index.html").write_text(page, encoding="utf-8")
        (folder / "figures").mkdir(exist_ok=True)
        written, removed = [folder / "index.html", folder / _LIBRARY], []
        for plan in shown:
            files = [folder / "figures" / name for name in file_names(plan.name).values()]
            (written if isinstance(plan, Drawing) else removed).extend(files)
        put_in_place([(aside / file.name, file) for file in reversed(written)], aside, removed)
        return written


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kvsim.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("template.html")


def _page(
    comparison: Shown,
    shown: list[Plan],
    pictures: list[tuple[Drawing, dict[str, str]]],
    command: str,
) -> str:
    return _template().render(
        comparison=comparison,
        opening=[found for found in pictures if found[0].name == overview.NAME],
        pictures=[found for found in pictures if found[0].name != overview.NAME],
        file_names=file_names,
        library=_LIBRARY,
        missing=[plan for plan in shown if isinstance(plan, Missing)],
        subjects=comparison.tasks if isinstance(comparison, Tasks) else comparison.sequences,
        facts=_of_texts(comparison) if isinstance(comparison, Tasks) else _of_trace(comparison),
        **_parts(comparison),
        runs=_runs(comparison),
        command=command,
        light=LIGHT,
        dark=DARK,
    )


def _of_trace(comparison: Comparison | Fetches) -> list[tuple[str, str]]:
    """What the page says of the rows of traces, by name."""
    traces = len(comparison.trace_ids)
    more = f" and {traces - 1} more" if traces > 1 else ""
    return [
        ("Trace", f"{traces} traces of one model" if traces > 1 else comparison.trace),
        ("Trace id", f"{comparison.trace_id}{more}"),
        ("Sequences", ", ".join(comparison.sequences)),
        ("Means over", f"{comparison.num_units} units (sequence, layer, KV head)"),
        ("Intervals", _intervals(comparison)),
        *_of_rows(comparison),
    ]


def _of_texts(shown: Tasks) -> list[tuple[str, str]]:
    """The same of the rows of tasks."""
    return [
        ("Model", ", ".join(sorted(shown.rows["model"].dropna().unique()))),
        ("Model id", str(shown.model_id)),
        ("Tasks", ", ".join(shown.tasks)),
        ("Means over", f"{len(shown.sequences)} texts"),
        ("Intervals", f"95%, paired bootstrap over the texts of a task, {DRAWS:,} draws; {_EACH}"),
        *_of_rows(shown),
    ]


def _of_rows(comparison: Shown) -> list[tuple[str, str]]:
    written = ", ".join(sorted(comparison.rows["kvsim_version"].unique()))
    # `kvsim report` knows its revision.
    version = os.environ.get("KVSIM_VERSION") or engine_version().partition("+")[0]
    return [
        ("Mode, seed", f"{comparison.mode}, {comparison.seed}"),
        ("Results", f"{comparison.results.path}, written by kvsim {written}"),
        ("Drawn", f"{_date()}, by kvsim {version}"),
    ]


def _parts(comparison: Shown) -> dict[str, object]:
    """The parts of a page that only one of policies has all of."""
    nothing: dict[str, object] = {"absolute": {}, "tables": [], "legend": []}
    if isinstance(comparison, Fetches):
        return nothing | {"heading": "What steps fetch from the host", "open_loop": OPEN_LOOP}
    legend = {"legend": [(style, _sample(style)) for style in comparison.legend]}
    if isinstance(comparison, Tasks):
        return nothing | legend | {"heading": "Policies at tasks", "open_loop": CLOSED_LOOP}
    return legend | {
        "heading": "Policies against budgets",
        "open_loop": open_loop(comparison),
        "absolute": {name: head for name, head in _ABSOLUTE.items() if comparison.has(name)},
        "tables": [(p, _table(comparison, p)) for p in _points(comparison)],
    }


def _date() -> str:
    """The time, or that of SOURCE_DATE_EPOCH, which makes a page reproducible."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    zone = timezone.utc
    now = datetime.now(zone) if epoch is None else datetime.fromtimestamp(int(epoch), zone)
    return now.strftime("%Y-%m-%d %H:%M UTC")


def _intervals(comparison: Comparison | Fetches) -> str:
    samples = comparison.intervals.samples
    if samples.count == 1:
        return "none, since there is one unit"
    text = f"95%, paired bootstrap over {samples.count} {samples.sampled}, {DRAWS:,} draws; "
    text += _EACH
    if samples.sampled == "units":
        few = len(comparison.sequences)
        text += f": with {few} {'sequence' if few == 1 else 'sequences'}, fewer than "
        text += f"{FEWEST_SAMPLES}, they say nothing about other texts"
    return text


def _points(comparison: Comparison) -> list[str]:
    """All budgets, the chosen one first."""
    others = [point for point in comparison.points.index if point != comparison.point]
    return [comparison.point, *others]


def _table(comparison: Comparison, point: str) -> list[dict[str, object]]:
    rows = []
    for spec, row in comparison.at(point).iterrows():
        numbers: dict[str, object] = {
            name: _number(row[name], 4) for name in row.index if name != "holds"
        }
        numbers.update({name: _digits(row[name]) for name in _ABSOLUTE})
        numbers.update({name: _number(row[name], 0) for name in ("peak_tokens", "cache_bytes")})
        numbers["ends"] = {name: _ends(row, name) for name in WITH_INTERVAL}
        rows.append({"style": comparison.styles[spec], "holds": row["holds"], **numbers})
    return rows


def _ends(row: pd.Series, name: str) -> str:
    """The interval of a number of the table; empty where all draws give the same."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if name in _ABSOLUTE:
        return "" if pd.isna(low) or low == high else f"[{_digits(low)}, {_digits(high)}]"
    return "" if low == high == row[name] else span(low, high, 4 if name == "regret" else 3)


def _number(value: float | None, digits: int) -> str:
    if pd.isna(value):
        return "–"
    value = round(value, digits) + 0.0  # no minus sign before a zero
    return f"{value:,.{digits}f}".replace("-", "−")


def _digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if pd.isna(value):
        return "–"
    return np.format_float_positional(value, 3, fractional=False, trim="-")


def _runs(comparison: Shown) -> list[dict[str, object]]:
    """The commands that wrote the shown rows. Empty if the file does not say."""
    if "run" not in comparison.results:
        return []
    runs = comparison.results["run"]
    if "run_id" in runs and "run_id" in comparison.rows:
        runs = runs[runs["run_id"].isin(comparison.rows["run_id"])]
    return runs.sort_values("started").to_dict("records") if "started" in runs else []


def _sample(style: Style) -> dict[str, str]:
    """SVG attributes of a line with its marker, as the figures draw them."""
    dashes = "" if isinstance(style.line, str) else " ".join(f"{1.6 * x:g}" for x in style.line[1])
    marker = MarkerStyle(style.marker)
    path = marker.get_path().transformed(marker.get_transform())
    words = []
    for points, code in path.iter_segments(curves=True):
        letter = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)]
        numbers = (f"{9 * v * (-1) ** i:.2f}" for i, v in enumerate(points) if letter != "Z")
        words.append(letter + " ".join(numbers))
    return {"dashes": dashes, "path": "".join(words)}
