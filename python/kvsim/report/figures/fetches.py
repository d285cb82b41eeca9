"""Draws hit rates against the resident size, and recall against what is fetched."""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..numbers.fetches import MIN, Fetches, family_of
from ..numbers.frames import Comparison
from ..numbers.intervals import span
from ..style import MARKERS, PALETTE, Shape, Theme, mix
from ..style.labels import labels
from . import Drawing, Plan, Table, fetches_along
from .panels import name_lines, panels_of, replacement_style, scale_of_bytes

HITS, RECALL = "fetch-hit-rate", "fetch-recall"
_MOST_PANELS = 9
_MOST_SIZES = 3  # panels of the second figure
_FEW = 12  # sizes that have a marker and a bar each
_KIB = 1024
_DASHED = (0, (3, 1.6))


def plan(comparison: Comparison) -> list[Plan]:
    fetches = Fetches.of(comparison)
    if fetches is None:
        return []
    return plans_of(fetches, "".join(f" {note}" for note in fetches.notes))


def plans_of(fetches: Fetches, notes: str = "") -> list[Plan]:
    """The figures; `notes` are for the first caption, where the page has not said them."""
    return [_hits(fetches, notes), *fetches_along.plan(fetches), _recall(fetches)]


def _hits(fetches: Fetches, notes: str) -> Drawing:
    shown = fetches.selects[:_MOST_PANELS]
    caption = (
        "The share of the pages that steps choose that is on the device, by how many tokens of a "
        "KV head it holds, for each selector."
    )
    if MIN in fetches.replaces:
        caption += " Dashed, without colour: MIN (Belady), which sees the future. No replacement "
        caption += "has a higher hit rate."
    if len(shown) < len(fetches.selects):
        caption += f" Drawn are {len(shown)} of {len(fetches.selects)} selectors."
    alt = "; ".join(_rates_in_words(fetches, select) for select in shown)
    draw = partial(_draw_hits, fetches, shown)
    title = "Hit rate against the resident size"
    return Drawing(HITS, title, caption + _bars(fetches) + notes, alt, draw)


def _rates_in_words(fetches: Fetches, select: str) -> str:
    """The hit rates at the least size."""
    rows = fetches.means[fetches.means["select"] == select]
    rows = rows[rows["resident"] == rows["resident"].min()]
    rates = ", ".join(
        f"{row['replace']} {row['hit_rate']:.3f} "
        f"{span(row['hit_rate_low'], row['hit_rate_high'], 3)}".strip()
        for row in rows.to_dict("records")
    )
    return f"{fetches.labels[select]} at {rows['resident'].iloc[0]:.4g} tokens: {rates}"


def _bars(fetches: Fetches) -> str:
    samples = fetches.intervals.samples
    if samples.count == 1:
        return " One unit gives no intervals."
    return f" Bars: 95% intervals of the mean over {samples.count} {samples.sampled}."


def _draw_hits(fetches: Fetches, shown: list[str], theme: Theme, shape: Shape) -> Figure:
    names = ("resident size (tokens)", "hit rate (share, 0–1)")
    figure, panels = panels_of(len(shown), shape, 1.9, names)
    for axes, select in zip(panels, shown):
        axes.set_title(fetches.labels[select], loc="left")
        for replacement in fetches.replaces:
            rows = fetches.of_select(select, replacement)
            style = replacement_style(replacement, theme)
            label = "MIN (belady)" if replacement == MIN else replacement
            many = len(rows) > _FEW
            style["marker"] = "" if many else style["marker"]
            axes.plot(rows["resident"], rows["hit_rate"], label=label, **style)
            ends = rows[["hit_rate_low", "hit_rate_high"]].to_numpy().T
            if many:
                fill = {"color": style["color"], "alpha": 0.15, "lw": 0}
                axes.fill_between(rows["resident"], *ends, **fill)
            else:
                sizes = np.stack([rows["resident"]] * 2)
                axes.plot(sizes, ends, color=style["color"], lw=0.8, alpha=0.55)
    name_lines(figure, shape)
    return figure


def _sizes(fetches: Fetches) -> list[str]:
    """The points to draw of those that most selectors have: the least, a middle one, the most."""
    means = fetches.means[fetches.means["replace"] == fetches.replaces[0]]
    groups = means.groupby("point")
    found = pd.DataFrame({"size": groups["resident"].mean(), "count": groups.size()})
    found = found[found["count"] == found["count"].max()].sort_values("size", kind="stable")
    places = np.linspace(0, len(found) - 1, min(_MOST_SIZES, len(found))).round().astype(int)
    return list(found.index[places])


def _recall(fetches: Fetches) -> Drawing:
    points, shown = _sizes(fetches), _replacements(fetches)
    caption = (
        "The share of the full attention that steps attend to, against the bytes that a step "
        "fetches for a KV head. A selector is a line over how much it attends to, which the "
        "numbers at the marks say. From a mark to the right: what the device holds of summaries "
        "for the selector, in addition; it is read on the device and not fetched."
    )
    if set(shown) > {MIN}:
        caption += f" Full marks: {shown[0]}."
    if MIN in shown:
        caption += " Hollow, dashed: MIN (Belady), the fewest bytes that this choice of pages can "
        caption += "cost."
    caption += " Without colour: selectors without summaries; topk and top-p are exact, no method."
    total = fetches.means["point"].nunique()
    if len(points) < total:
        caption += f" Drawn are {len(points)} of {total} sizes."
    title = "Recall against fetched bytes"
    tables = tuple(_table(fetches, point) for point in points)
    alt = "; ".join(_recall_in_words(fetches, select, points[0]) for select in fetches.selects)
    draw = partial(_draw_recall, fetches, points, shown)
    return Drawing(RECALL, title, caption + _bars(fetches), alt, draw, tables=tables)


def _replacements(fetches: Fetches) -> list[str]:
    """What a device can do, and MIN."""
    found = [fetches.practical, MIN if MIN in fetches.replaces else None]
    return [name for name in found if name is not None]


def _recall_in_words(fetches: Fetches, select: str, point: str) -> str:
    rows = fetches.of_select(select, _replacements(fetches)[0])
    words = [
        f"{fetches.labels[select]} {row['attention_recall']:.3f} for "
        f"{row['fetched_bytes_mean']:,.0f} bytes per step and {row['summary_bytes']:,.0f} of "
        "summaries"
        for row in rows[rows["point"] == point].to_dict("records")
    ]
    return words[0] if words else f"{fetches.labels[select]} has no such size"


def _table(fetches: Fetches, point: str) -> Table:
    """All selectors and replacements at one size; bytes per step."""
    means = fetches.means[fetches.means["point"] == point]
    order = {name: place for place, name in enumerate([*fetches.selects, *fetches.replaces])}
    means = means.sort_values(["select", "replace"], key=lambda names: names.map(order))
    tokens = f"{means['resident'].mean():.4g}"
    size = f"{tokens} tokens" + ("" if point == tokens else f" ({point})")
    head = ("selector", "replacement", "hit rate", "fetched, mean", "p95", "max")
    head += ("summaries", "attended (tokens)", "recall")
    rows = tuple(
        (
            (fetches.labels[row["select"]], ""),
            (row["replace"], ""),
            _cell(row, "hit_rate", 4),
            _cell(row, "fetched_bytes_mean", 0),
            *((f"{row[f'fetched_bytes_{name}']:,.0f}", "") for name in ("p95", "max")),
            (f"{row['summary_bytes']:,.0f}", ""),
            (f"{row['attended_mean']:.1f}", ""),
            _cell(row, "attention_recall", 4),
        )
        for row in means.to_dict("records")
    )
    return Table(f"Bytes per step with {size} on the device, {fetches.mode}", head, rows)


def _cell(row: dict, name: str, digits: int) -> tuple[str, str]:
    if pd.isna(row[name]):
        return "–", ""
    return f"{row[name]:,.{digits}f}", span(row[f"{name}_low"], row[f"{name}_high"], digits)


def _colors(fetches: Fetches, theme: Theme) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each family; grey for those without summaries."""
    families = list(dict.fromkeys(family_of(select).settings for select in fetches.selects))
    summaries = fetches.means.groupby("select")["summary_bytes"].max()
    exact = list(
        dict.fromkeys(family_of(select).settings for select in summaries.index[summaries == 0])
    )
    found = {}
    for place, family in enumerate(families):
        greys = mix(*theme.oracle, exact.index(family) / len(exact)) if family in exact else ""
        color = greys or PALETTE[place % len(PALETTE)][theme.index]
        found[family] = (color, MARKERS[place % len(MARKERS)])
    return found


def _draw_recall(
    fetches: Fetches, points: list[str], shown: list[str], theme: Theme, shape: Shape
) -> Figure:
    names = ("fetched per step (KiB)", "attention recall (0–1)")
    figure, panels = panels_of(len(points), shape, 2.2, names)
    colors, means = _colors(fetches, theme), fetches.means
    label_of = labels(list(colors))
    families = means["select"].map(lambda select: family_of(select).settings)
    amounts = means["select"].map(lambda select: family_of(select).amount)
    means = means.assign(family=families, amount=amounts)
    for axes, point in zip(panels, points):
        at = means[means["point"] == point]
        axes.set_title(f"{at['resident'].mean():.4g} tokens resident", loc="left")
        for family, (color, marker) in colors.items():
            for replacement in shown:
                rows = at[(at["family"] == family) & (at["replace"] == replacement)]
                is_full = replacement == shown[0]
                style = {"color": color, "marker": marker, "markersize": 4}
                style |= {"label": label_of[family]} if is_full else {}
                style |= {"linestyle": "-" if is_full else _DASHED}
                style |= {} if is_full else {"markerfacecolor": theme.paper, "lw": 0.9}
                _line(axes, rows.sort_values("amount"), style, is_full)
        if len(shown) > 1:
            line = {"color": theme.muted, "linestyle": _DASHED, "marker": "o", "lw": 0.9}
            line |= {"markerfacecolor": theme.paper, "markersize": 4}
            axes.plot([], [], label="MIN (belady)", **line)
        if (means["summary_bytes"] > 0).any():
            line = {"color": theme.muted, "marker": "|", "markersize": 5, "lw": 0.8}
            axes.plot([], [], label="and summaries", **line)
    fetched, held = (means[name] / _KIB for name in ("fetched_bytes_mean", "summary_bytes"))
    scale_of_bytes(panels[0], np.concatenate([fetched, fetched + held]))
    name_lines(figure, shape)
    return figure


def _line(axes: Axes, rows: pd.DataFrame, style: dict[str, object], is_full: bool) -> None:
    """One selector under one replacement, with what its summaries take."""
    x, y = rows["fetched_bytes_mean"] / _KIB, rows["attention_recall"]
    axes.plot(x, y, zorder=2.6 if is_full else 2.5, **style)
    if not is_full:
        return
    thin = {"color": style["color"], "lw": 0.8, "alpha": 0.7, "zorder": 2.2}
    axes.plot(np.stack([x, x]), rows[["attention_recall_low", "attention_recall_high"]].T, **thin)
    has = rows["summary_bytes"] > 0
    ends = np.stack([x, x + rows["summary_bytes"] / _KIB])[:, has]
    axes.plot(ends, np.stack([y, y])[:, has], **thin)
    axes.plot(ends[1], y[has], linestyle="none", marker="|", markersize=5, **thin)
    for amount, place in zip(rows["amount"], zip(x, y)):
        if not np.isnan(amount):
            where = {"textcoords": "offset points", "xytext": (3, -8), "fontsize": 6.5}
            axes.annotate(f"{amount:g}", place, color=style["color"], **where)
