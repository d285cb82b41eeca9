"""Writes the figure files and the page that shows them."""

import base64
import io
import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jinja2
import matplotlib
import pandas as pd
from matplotlib.markers import MarkerStyle

from .figures import Drawing, Missing, Plan, curves, gap, heat, maps, measured
from .frames import Comparison
from .style import DARK, LIGHT, NARROW, THEMES, WIDE, Shape, Style, Theme, settings

_PLANS = (curves.plan, gap.plan, heat.plan, measured.plan, maps.plan)
_PNG_DPI = 200
_ENDINGS = ("svg", "png")
# Omitted from SVG files, because they differ between runs or contain addresses.
_SVG_FACTS = dict.fromkeys(("Date", "Creator", "Type", "Format"))


def plans(comparison: Comparison) -> list[Plan]:
    """All figures of the report, in order."""
    return [plan for module in _PLANS for plan in module(comparison)]


def write_report(comparison: Comparison, folder: Path) -> Path:
    """Writes `figures/NAME-THEME.png` and `.svg`, and `index.html`, which embeds its figures.

    It removes figures of an earlier report that it does not draw now. Returns the path of the page.
    Raises OSError if it cannot write.
    """
    shown = plans(comparison)
    folder.mkdir(parents=True, exist_ok=True)
    # Draw everything in a temporary folder: an interrupted run leaves the earlier report intact.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".kvsim-") as aside:
        page = _write(comparison, shown, Path(aside))
        (folder / "figures").mkdir(exist_ok=True)
        for plan, theme, ending in itertools.product(shown, THEMES, _ENDINGS):
            place = folder / "figures" / _file_name(plan, theme, ending)
            if isinstance(plan, Drawing):
                (Path(aside) / place.name).replace(place)
            else:
                place.unlink(missing_ok=True)
        return page.replace(folder / page.name)


def _write(comparison: Comparison, shown: list[Plan], folder: Path) -> Path:
    drawings = [plan for plan in shown if isinstance(plan, Drawing)]
    pictures = [(drawing, _sources(drawing, folder)) for drawing in drawings]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kvsim.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template("template.html").render(
        comparison=comparison,
        pictures=pictures,
        missing=[plan for plan in shown if isinstance(plan, Missing)],
        summary=_summary(comparison),
        tables=[(p, _table(comparison, p)) for p in _points(comparison)],
        legend=[(style, _sample(style)) for style in _shown_styles(comparison)],
        light=LIGHT,
        dark=DARK,
    )
    file = folder / "index.html"
    file.write_text(page, encoding="utf-8")
    return file


def render(drawing: Drawing, theme: Theme, shape: Shape, endings: Iterable[str]) -> list[bytes]:
    """Draws a figure. Returns the bytes of one file per ending, png or svg."""
    files = []
    with matplotlib.rc_context(settings(theme)):
        figure = drawing.draw(theme, shape)
        for ending in endings:
            buffer = io.BytesIO()
            facts = _SVG_FACTS if ending == "svg" else {}
            figure.savefig(buffer, format=ending, dpi=_PNG_DPI, metadata=facts)
            figure.set_layout_engine("none")  # the layout is done; later formats keep it
            files.append(buffer.getvalue())
    return files


def _file_name(plan: Plan, theme: Theme, ending: str) -> str:
    return f"{plan.name}-{theme.name}.{ending}"


def _sources(drawing: Drawing, folder: Path) -> dict[str, str]:
    """Writes the files of a figure. Returns data URIs by theme and shape, such as light-wide."""
    found = {}
    for theme in THEMES:
        wide = render(drawing, theme, WIDE, _ENDINGS)
        for ending, picture in zip(_ENDINGS, wide):
            (folder / _file_name(drawing, theme, ending)).write_bytes(picture)
        (narrow,) = render(drawing, theme, NARROW, ("svg",))
        for shape, picture in ((WIDE, wide[0]), (NARROW, narrow)):
            data = base64.b64encode(picture).decode()
            found[f"{theme.name}-{shape.name}"] = f"data:image/svg+xml;base64,{data}"
    return found


def _summary(comparison: Comparison) -> str:
    rows = comparison.at(comparison.point)
    rivals = rows[rows["holds"] & ~rows.index.isin(comparison.oracles)]
    rivals = rivals[rivals["attention_recall"].notna()]
    if rivals.empty:
        return ""
    best = rivals["attention_recall"].idxmax()
    text = (
        f"At {comparison.budget_name(comparison.point)} per KV head, "
        f"{comparison.styles[best].label} retains the most attention of the policies that hold "
        f"the budget: {rivals['attention_recall'].max():.3f}"
    )
    oracle = comparison.yardstick
    if oracle in rows.index:
        recall = rows.loc[oracle, "attention_recall"]
        return f"{text}, where {comparison.styles[oracle].label} retains {recall:.3f}."
    return text + "."


def _points(comparison: Comparison) -> list[str]:
    """All budgets, the chosen one first."""
    others = [point for point in comparison.points.index if point != comparison.point]
    return [comparison.point, *others]


def _table(comparison: Comparison, point: str) -> list[dict[str, object]]:
    rows = []
    for spec, row in comparison.at(point).iterrows():
        numbers = {name: _number(row[name], 4) for name in row.index if name != "holds"}
        numbers.update({name: _number(row[name], 0) for name in ("peak_tokens", "cache_bytes")})
        rows.append({"style": comparison.styles[spec], "holds": row["holds"], **numbers})
    return rows


def _number(value: float | None, digits: int) -> str:
    if pd.isna(value):
        return "–"
    value = round(value, digits) + 0.0  # no minus sign before a zero
    return f"{value:,.{digits}f}".replace("-", "−")


def _shown_styles(comparison: Comparison) -> list[Style]:
    shown = [comparison.styles[spec] for spec in comparison.policies]
    return sorted(shown, key=lambda style: (style.is_oracle, style.spec))


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
