"""Draws how many bytes a step fetches along a text, counted again from the trace."""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure

from ..numbers.along_text import CAUSAL, Stretches, busiest, stretches
from ..numbers.attention import TraceError, find_trace
from ..numbers.fetches import Fetches
from ..style import Shape, Theme
from . import Drawing, Missing, Plan
from .panels import name_lines, panels_of, replacement_style

NAME, TITLE = "fetch-along-text", "Fetched bytes along the text"
_MOST_PANELS = 6
_KIB = 1024


def plan(found: Fetches) -> list[Plan]:
    rows = busiest(found)
    if rows.empty:
        why = f"It needs rows of a selector that reads nothing ahead ({', '.join(CAUSAL)}) and of "
        why += "a replacement other than belady."
        command = f"kvsim fetch {found.trace} --select quest --resident 50% --replace lru"
        return [Missing(NAME, TITLE, why, f"{command} -o {found.results.path}")]
    file = found.results.path
    try:
        named = found.choice.trace or str(rows["trace"].iloc[0])
        path = find_trace(named, file.parent, str(rows["trace_id"].iloc[0]))
        shown = stretches(rows, path, found.mode)
    except TraceError as error:
        why = f"It is computed from the trace: {error}."
        return [Missing(NAME, TITLE, why, f"kvsim report {file} -o DIR --trace TRACE")]
    selects = [select for select in found.selects if select in set(rows["select"])]
    left_out = len(found.selects) - len(selects[:_MOST_PANELS])
    steps = (shown.ends[-1] - shown.ends[0]) / (len(shown.ends) - 1)
    caption = (
        f"Sequence {shown.sequence}, layer {shown.layer}, KV head {shown.kv_head}, the one that "
        f"fetches the most, with {shown.resident} tokens on the device, the least size that most "
        f"selectors have: the mean over stretches of {steps:.3g} steps, counted from the trace on "
        "beginnings of the text. "
        "MIN is not shown, since what it fetches up to a step depends on what comes after it."
    )
    if left_out:
        caption += f" Selectors left out: {left_out}."
    alt = "; ".join(_in_words(found, shown, select) for select in selects[:_MOST_PANELS])
    draw = partial(_draw, found, shown, selects[:_MOST_PANELS])
    return [Drawing(NAME, TITLE, caption, alt, draw)]


def _in_words(found: Fetches, shown: Stretches, select: str) -> str:
    """Where the most is fetched, for the first replacement that there is."""
    replacement = next(name for name in found.replaces if (select, name) in shown.rates)
    rates = shown.rates[select, replacement]
    first, last = shown.ends[rates.argmax()], shown.ends[rates.argmax() + 1]
    words = f"{found.labels[select]} with {replacement}: at most {rates.max():,.0f} bytes per step"
    return f"{words}, in steps {first} to {last - 1}"


def _draw(
    found: Fetches, shown: Stretches, selects: list[str], theme: Theme, shape: Shape
) -> Figure:
    figure, panels = panels_of(
        len(selects), shape, 1.7, ("step (tokens)", "fetched per step (KiB)")
    )
    for axes, select in zip(panels, selects):
        axes.set_title(found.labels[select], loc="left")
        for place, replacement in enumerate(found.replaces):
            if (select, replacement) not in shown.rates:
                continue
            style = replacement_style(replacement, theme)
            kib = shown.rates[select, replacement] / _KIB
            options = {"color": style["color"], "label": replacement, "lw": 1.1}
            options["zorder"] = 3 - 0.1 * place  # LRU on top
            axes.stairs(kib, shown.ends, baseline=None, **options)
    panels[0].set_ylim(bottom=0)
    name_lines(figure, shape)
    return figure
