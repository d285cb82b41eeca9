"""Panels that share axes and one legend, and the lines of replacements in them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..numbers.fetches import MIN, ONLINE
from ..style import MARKERS, PALETTE, Shape, Theme


def replacement_style(replacement: str, theme: Theme) -> dict[str, object]:
    """The line of a replacement, the same in all figures; MIN is a bound and has no colour."""
    if replacement == MIN:
        return {"color": theme.ink, "linestyle": (0, (4, 1.6)), "marker": "", "lw": 1.2}
    place = ONLINE.index(replacement)
    color = PALETTE[place][theme.index]
    return {"color": color, "linestyle": "-", "marker": MARKERS[place], "markersize": 3.6}


def panels_of(
    count: int, shape: Shape, height: float, names: tuple[str, str]
) -> tuple[Figure, list[Axes]]:
    """A figure of panels that share their axes, `height` inches each; `names` of x and y."""
    columns = min(count, (1 if count < 4 else 2) if shape.narrow else 3)
    lines = -(-count // columns)
    size = (shape.width, height * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    found = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in found[count:]:
        axes.set_visible(False)
    for place, axes in enumerate(found[:count]):
        # The last panel of a column may stand above an empty place.
        is_last = place + columns >= count
        axes.tick_params(labelbottom=is_last)
        axes.set_xlabel(names[0] if is_last else "")
        axes.set_ylabel(names[1] if place % columns == 0 else "")
    return figure, list(found[:count])


def name_lines(figure: Figure, shape: Shape) -> None:
    """Names the lines of all panels once, below them."""
    lines = {
        label: line
        for axes in figure.axes
        for line, label in zip(*axes.get_legend_handles_labels())
    }
    columns = 3 if shape.narrow else 6
    options = {"frameon": False, "fontsize": 7.5, "ncols": min(columns, max(len(lines), 1))}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", **options)


def scale_of_bytes(axes: Axes, values: np.ndarray) -> None:
    """A logarithmic x axis where values differ much, with plain numbers; zero has a place, too."""
    above = values[values > 0]
    if not above.size or above.max() <= 20 * above.min():
        return
    if above.size < values.size:
        axes.set_xscale("symlog", linthresh=above.min(), linscale=0.6)
    else:
        axes.set_xscale("log")
    lowest, highest = (int(np.floor(np.log10(end))) for end in (above.min(), above.max()))
    ticks = [10.0**power for power in range(lowest, highest + 2)]
    ticks = [tick for tick in ticks if above.min() <= tick <= above.max()]
    ticks = [0.0] * (above.size < values.size) + ticks[:: -(-len(ticks) // 4)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
