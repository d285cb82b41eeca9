"""The look of figures: two themes, two shapes, and one colour, line and marker per policy."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb

from ... import _engine
from .labels import base_name, labels

# Pairs for the light and the dark theme: one hue, at a contrast of at least 3:1 with the paper. The
# first pairs are easy to tell apart for every kind of colour vision. Later ones are closer to each
# other, so that line and marker have to distinguish them.
_PAIRS = (
    "#2574b0 #6fbbfc,#68130b #b65c4e,#b58b2b #fed277,#430889 #835ed8,#ad3a52 #fd8295,"
    "#3f9e94 #89e6db,#5c2f59 #a4719f,#4f36c7 #8e8cfe,#6a4d01 #b19253,#a3640f #eeaa62,"
    "#865582 #cf99c9,#b4745a #feba9f,#7f3386 #c979d0,#6a85bd #b3ccfe,#763640 #c17a82,"
    "#560e68 #9e59b3,#2123af #5876fe,#056e5a #60b59e,#5b2036 #a66378,#228a8d #73d2d5,"
    "#835a20 #cb9f67,#ac43a5 #f98bf0,#6c2074 #b768be,#b476ef #e8d5ff"
)
PALETTE = [tuple(pair.split()) for pair in _PAIRS.split(",")]
MARKERS = "osD^vP*Xph<>d8H"
LINES = ("-", (0, (6, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (7, 1.2, 1, 1.2, 1, 1.2)))
# Oracles do not compete with policies: they are grey, and dash and marker distinguish them.
ORACLE_LINES = ((0, (1, 1)), (0, (3, 1)), (0, (5, 1, 1, 1)), (0, (7, 2)))


@dataclass(frozen=True)
class Theme:
    name: str
    paper: str
    ink: str
    muted: str  # secondary text, contrast 4.5:1 with the paper
    grid: str
    shade: str  # background of secondary areas
    oracle: tuple[str, str]  # greys of the first and the last oracle
    index: int  # of this theme's colour in a pair


LIGHT = Theme(
    "light", "#ffffff", "#1b1e24", "#5a6070", "#e3e6eb", "#eceef2", ("#000000", "#888e99"), 0
)
DARK = Theme(
    "dark", "#14161b", "#e9ebf0", "#a3a9b8", "#2c3039", "#23262e", ("#ffffff", "#757c8a"), 1
)
THEMES = (LIGHT, DARK)


@dataclass(frozen=True)
class Shape:
    """The size of a figure in inches. Text has the same size in points in all shapes."""

    name: str
    width: float
    height: float  # of curves; other figures follow from what they show

    @property
    def narrow(self) -> bool:
        return self.width < 5


WIDE = Shape("wide", 7.4, 4.2)
NARROW = Shape("narrow", 3.9, 5.0)
# Of papers: one column, and the width of the text.
COLUMN = Shape("column", 3.3, 3.2)
TEXT = Shape("text", 6.9, 3.8)


@dataclass(frozen=True)
class Style:
    spec: str
    label: str
    colors: tuple[str, str]  # light, dark
    line: str | tuple[int, tuple[float, ...]]
    marker: str
    is_oracle: bool

    def color(self, theme: Theme) -> str:
        return self.colors[theme.index]

    def line_in(self, theme: Theme) -> dict[str, object]:
        """The arguments of matplotlib's `plot` for the line of the policy."""
        return {"color": self.color(theme), "linestyle": self.line, "marker": self.marker}


@cache
def policy_names() -> list[str]:
    """The built-in policies that compete, in the order of their colours."""
    return _names_in_figures(references=False)


@cache
def oracle_names() -> list[str]:
    """The built-in oracles and other references, in the order of their greys."""
    return _names_in_figures(references=True)


def _names_in_figures(references: bool) -> list[str]:
    # Those of the engine: kvsim.policies() loads what packages declare.
    rows = [row for row in _engine.policies() if row["color_place"] is not None]
    rows = [row for row in rows if row["reference"] == references]
    return [row["name"] for row in sorted(rows, key=lambda row: row["color_place"])]


def styles(
    specs: Iterable[str],
    oracles: Iterable[str] | None = None,
    chosen: Mapping[str, str] | None = None,
) -> dict[str, Style]:
    """One style for each spec or policy name. `chosen` has labels for some of them.

    `oracles` are specs that do not compete; without it they are those that the registry knows.
    The place of a policy in the registry gives it its colour in all files. Variants of it take free
    places, as do policies that are not built in.

    The style of a policy does not depend on the other specs, except if several specs are variants
    of one policy.
    """
    specs = sorted(specs)
    known = oracle_names()
    names, above = labels(specs, chosen), set(known if oracles is None else oracles)
    found = {}
    ladder = _places([spec for spec in specs if spec in above], known)
    last = max([len(known) - 1, *ladder.values()])
    for spec, place in ladder.items():
        colors = tuple(mix(*theme.oracle, place / last) for theme in THEMES)
        line = ORACLE_LINES[place % len(ORACLE_LINES)]
        marker = MARKERS[place % len(MARKERS)]
        found[spec] = Style(spec, names[spec], colors, line, marker, True)
    competing = [spec for spec in specs if spec not in above]
    for spec, place in _places(competing, policy_names()).items():
        line, marker = LINES[place % len(LINES)], MARKERS[place % len(MARKERS)]
        found[spec] = Style(spec, names[spec], _pair(place), line, marker, False)
    return found


def _places(specs: list[str], known: list[str]) -> dict[str, int]:
    """The first spec of a known name gets the place of the name, others the next free place."""
    found: dict[str, int] = {}
    # The plain policy comes before its variants with '+' or '@'.
    for spec in sorted(specs, key=lambda spec: ("+" in spec or "@" in spec, spec)):
        name = base_name(spec)
        if name in known and known.index(name) not in found.values():
            found[spec] = known.index(name)
    free = (place for place in itertools.count() if place not in set(found.values()))
    for spec in specs:
        if spec not in found:
            found[spec] = next(free)
    return found


def _pair(place: int) -> tuple[str, str]:
    size = len(PALETTE)
    if place < size:
        return PALETTE[place]
    # Beyond the palette, mix neighbouring colours. Line and marker distinguish what colours cannot.
    turn, here = divmod(place, size)
    share = 1 / (turn + 1)
    first, second = PALETTE[here], PALETTE[(here + 1) % size]
    return (mix(first[0], second[0], share), mix(first[1], second[1], share))


def mix(first: str, second: str, share: float) -> str:
    """The colour `share` of the way from the first to the second."""
    pairs = zip(to_rgb(first), to_rgb(second))
    return to_hex([a + (b - a) * share for a, b in pairs])


def ink_map(theme: Theme) -> LinearSegmentedColormap:
    """A colour map from paper to ink."""
    return LinearSegmentedColormap.from_list("ink", [theme.paper, theme.ink])


def settings(theme: Theme) -> dict[str, object]:
    """The rcParams of matplotlib for a theme, the same for both shapes."""
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
        "figure.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.muted,
        "axes.linewidth": 0.6,
        "axes.labelcolor": theme.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.6,
        "text.color": theme.ink,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "lines.linewidth": 1.4,
        "lines.markersize": 4.5,
        "text.parse_math": False,  # a "$" in a name is a "$"
        "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
        "svg.hashsalt": "kvsim",  # the same file for the same figure
    }
