"""The figures of the report, one module each.

Each module has `plan(comparison)`. It returns a Drawing for each figure that the result file allows
and a Missing for each figure that lacks its data.

In: the numbers of `report.numbers`. Out: drawings for matplotlib, and where they can be explored
what plotly needs (`explore.py`). Read first: `curves.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..numbers.frames import Comparison
from ..numbers.protocol import options_of
from ..style import Shape, Style, Theme

INDICATIVE = 0.3  # nats per token; above it a local prediction is indicative only


@dataclass(frozen=True)
class Table:
    """Numbers below a figure. A cell is a text and its interval, which may be empty."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True)
class Drawing:
    name: str  # the beginning of its file names
    title: str
    caption: str
    alt: str  # the alternative text: what the figure shows, in numbers
    draw: Callable[[Theme, Shape], Figure]
    explore: dict | None = None  # the same for plotly.js; None: the picture alone
    tables: tuple[Table, ...] = ()
    finding: str = ""  # what the figure says, which the page has in place of the title


@dataclass(frozen=True)
class Missing:
    name: str  # as of a Drawing
    title: str
    why: str
    command: str  # writes the missing data; empty if there is none


Plan = Drawing | Missing


def without_reference(comparison: Comparison, name: str, title: str) -> Missing:
    """For a figure that needs the full attention, in a mode that does not compute it."""
    command = (
        f"kvsim sweep {comparison.trace} --policies '{';'.join(comparison.policies)}' "
        f"--budgets {','.join(comparison.points.index)}{options_of(comparison.protocol)} "
        f"--seed {comparison.seed} -o {comparison.results.path}"
    )
    why = f"Rows of the mode {comparison.mode} were computed without the full attention."
    return Missing(name, title, why, command)


def line_style(style: Style, theme: Theme) -> dict[str, object]:
    """The arguments of `plot` for the line of a policy, the same in all figures."""
    return {
        **style.line_in(theme),
        "markersize": marker_size(style),
        "markeredgecolor": theme.paper,
        "markeredgewidth": 0.5,
        "markerfacecolor": style.color(theme),
    }


def marker_size(style: Style, times: float = 1.0) -> float:
    """The size in points at which markers of different shapes look equally large."""
    larger = {"*": 1.7, "P": 1.25, "X": 1.25, "p": 1.2, "d": 1.2, "h": 1.15, "H": 1.15}
    return 4.5 * times * larger.get(style.marker, 1.0)


def dot_style(style: Style, theme: Theme) -> dict[str, object]:
    return {**line_style(style, theme), "linestyle": "none"}


def spread(places: list[float], distance: float) -> list[float]:
    """Moves ascending places as little as needed to be `distance` apart."""
    blocks: list[list[float]] = []  # [sum of wished starts, number of places]
    for index, place in enumerate(places):
        blocks.append([place - index * distance, 1])
        # Blocks that overlap merge and move to the mean of the wished starts.
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    starts = [total / count for total, count in blocks for _ in range(int(count))]
    return [start + index * distance for index, start in enumerate(starts)]


def bare(axes: Axes) -> None:
    """Removes grid and frame, for maps."""
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def bar_size(figure: Figure, shape: Shape) -> dict[str, float]:
    """Arguments that keep the colour bar above maps at one height for every figure height."""
    height = figure.get_figheight()
    return {"fraction": 0.2 / height, "pad": 0.1 / height, "shrink": 1 if shape.narrow else 0.6}
