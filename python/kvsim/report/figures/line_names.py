"""Names lines at their ends, in place of a long legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from . import dot_style, spread

if TYPE_CHECKING:
    from ..style import Style, Theme


def name_lines(
    axes: Axes,
    styles: Mapping[str, Style],
    ends: Mapping[str, tuple[float, float]],
    names: Mapping[str, str],
    theme: Theme,
) -> None:
    """Writes the names on the right of the axes, without overlap. `ends`: where the line of each
    policy ends, x and y. Keeps the limits of the y axis."""
    height = axes.get_position().height * axes.figure.get_figheight() * 72  # points
    low, high = axes.get_ylim()
    order = sorted(ends, key=lambda spec: ends[spec][1])
    to_axes = axes.transData + axes.transAxes.inverted()
    lasts = [to_axes.transform(ends[spec]) for spec in order]
    wished = [float(last[1]) for last in lasts]
    step = 10.2 / height
    found = spread(wished, step)
    shift = min(0.0, 1.01 - found[-1]) or max(0.0, -found[0])
    found = spread([min(max(place + shift, 0), 1) for place in found], step)
    width = axes.get_position().width * axes.figure.get_figwidth()  # inches
    for spec, last, place in zip(order, lasts, found):
        style = styles[spec]
        points = (
            [last[0], 1 + 0.06 / width, 1 + 0.2 / width],
            [last[1], place, place],
        )
        line = {"color": style.color(theme), "lw": 0.6, "alpha": 0.7, "clip_on": False}
        axes.add_line(Line2D(*points, **line, transform=axes.transAxes))
        sample = {**dot_style(style, theme), "clip_on": False, "transform": axes.transAxes}
        axes.plot([1 + 0.2 / width], [place], **sample)
        color = theme.muted if style.is_oracle else theme.ink
        where = {"va": "center_baseline", "transform": axes.transAxes, "fontsize": 7.5}
        axes.text(1 + 0.29 / width, place, names[spec], color=color, **where)
    axes.set_ylim(low, high)
