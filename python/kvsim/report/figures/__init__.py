"""The figures of the report, one module each.

A module has `plan(comparison)`, which returns what can be drawn (Drawing) or what is not there to
be drawn (Missing).
"""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..frames import Comparison
from ..style import Shape, Style, Theme


@dataclass(frozen=True)
class Drawing:
    name: str  # of its files
    title: str
    caption: str
    alt: str  # for those who cannot see it: what it shows, in numbers
    draw: Callable[[Theme, Shape], Figure]


@dataclass(frozen=True)
class Missing:
    name: str  # of the files that a drawing would have
    title: str
    why: str
    command: str  # what would fill it; empty: nothing would


Plan = Drawing | Missing


def without_reference(comparison: Comparison, name: str, title: str) -> Missing:
    """Of a figure that compares with the full attention, in a mode that has none."""
    command = (
        f"kvsim sweep {comparison.trace} --policies '{';'.join(comparison.policies)}' "
        f"--budgets {','.join(comparison.points.index)} --mode {comparison.base_mode} "
        f"--seed {comparison.seed} -o {comparison.results.path}"
    )
    why = f"Rows of the mode {comparison.mode} hold nothing that the full attention tells."
    return Missing(name, title, why, command)


def line_style(style: Style, theme: Theme) -> dict[str, object]:
    """What draws a policy's line in any figure."""
    return {
        **style.line_in(theme),
        "markersize": marker_size(style),
        "markeredgecolor": theme.paper,
        "markeredgewidth": 0.5,
        "markerfacecolor": style.color(theme),
    }


def marker_size(style: Style, times: float = 1.0) -> float:
    """In points: marks of different shapes are drawn to look equally large."""
    larger = {"*": 1.7, "P": 1.25, "X": 1.25, "p": 1.2, "d": 1.2, "h": 1.15, "H": 1.15}
    return 4.5 * times * larger.get(style.marker, 1.0)


def dot_style(style: Style, theme: Theme) -> dict[str, object]:
    return {**line_style(style, theme), "linestyle": "none"}


def spread(places: list[float], distance: float) -> list[float]:
    """The places, in ascending order, moved as little as needed to be `distance` apart."""
    blocks: list[list[float]] = []  # [sum of wished starts, number of places]
    for index, place in enumerate(places):
        blocks.append([place - index * distance, 1])
        # Blocks that overlap move together, to the mean of what their places wish for.
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    starts = [total / count for total, count in blocks for _ in range(int(count))]
    return [start + index * distance for index, start in enumerate(starts)]


def bare(axes: Axes) -> None:
    """No grid, no frame: for maps."""
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def bar_size(figure: Figure, shape: Shape) -> dict[str, float]:
    """What keeps a colour bar above maps equally high, however high the figure is."""
    height = figure.get_figheight()
    return {"fraction": 0.2 / height, "pad": 0.1 / height, "shrink": 1 if shape.narrow else 0.6}
