"""How figures look: two themes, two shapes, and for every policy one colour, line and marker."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb

from kvsim.report.labels import labels

# Each next colour is the one farthest from those before it, for normal, protan, deutan and tritan
# vision and in both themes at once (Oklab distance, Machado et al. 2009), among those that have a
# contrast of 3:1 with the paper. A pair has one hue: the dark theme's is lighter.
_PAIRS = (
    "#2574b0 #6fbbfc,#68130b #b65c4e,#b58b2b #fed277,#430889 #835ed8,#ad3a52 #fd8295,"
    "#3f9e94 #89e6db,#5c2f59 #a4719f,#4f36c7 #8e8cfe,#6a4d01 #b19253,#a3640f #eeaa62,"
    "#865582 #cf99c9,#b4745a #feba9f,#7f3386 #c979d0,#6a85bd #b3ccfe,#763640 #c17a82,"
    "#560e68 #9e59b3,#2123af #5876fe,#056e5a #60b59e,#5b2036 #a66378,#228a8d #73d2d5,"
    "#835a20 #cb9f67,#ac43a5 #f98bf0,#6c2074 #b768be,#b476ef #e8d5ff"
)
PALETTE = [tuple(pair.split()) for pair in _PAIRS.split(",")]
MARKERS = "osD^vP*Xph<>d8H"
LINES = ("-", (0, (6, 1.5)), (0, (4, 1.2, 1, 1.2)))
# Oracles are no competitors: they are grey, and tell by dash and marker.
ORACLE_LINES = ((0, (1, 1)), (0, (3, 1)), (0, (5, 1, 1, 1)), (0, (7, 2)))


@dataclass(frozen=True)
class Theme:
    name: str
    paper: str
    ink: str
    muted: str  # text of less weight, 4.5:1 on paper
    grid: str
    shade: str  # areas that are not the matter
    oracle: tuple[str, str]  # greys, between the first and the last oracle

    @property
    def index(self) -> int:
        return 0 if self.name == "light" else 1


LIGHT = Theme(
    "light", "#ffffff", "#1b1e24", "#5a6070", "#e3e6eb", "#eceef2", ("#000000", "#888e99")
)
DARK = Theme("dark", "#14161b", "#e9ebf0", "#a3a9b8", "#2c3039", "#23262e", ("#ffffff", "#757c8a"))
THEMES = (LIGHT, DARK)


@dataclass(frozen=True)
class Shape:
    """Widths are in inches; text sizes, in points, are the same in both."""

    name: str
    width: float

    @property
    def narrow(self) -> bool:
        return self.name == "narrow"


WIDE = Shape("wide", 7.4)
NARROW = Shape("narrow", 3.9)


@dataclass(frozen=True)
class Style:
    spec: str
    label: str
    colors: tuple[str, str]  # light, dark
    line: object
    marker: str
    is_oracle: bool

    def color(self, theme: Theme) -> str:
        return self.colors[theme.index]


def styles(specs: list[str], oracles: set[str]) -> dict[str, Style]:
    """One style for each spec of the result file, by its place among the sorted specs: whatever is
    left out of a figure, a policy looks the same in all."""
    names = labels(sorted(specs))
    found = {}
    ladder = sorted(spec for spec in specs if spec in oracles)
    for place, spec in enumerate(ladder):
        share = place / max(1, len(ladder) - 1)
        colors = tuple(_mix(*theme.oracle, share) for theme in THEMES)
        line = ORACLE_LINES[place % len(ORACLE_LINES)]
        marker = MARKERS[place % len(MARKERS)]
        found[spec] = Style(spec, names[spec], colors, line, marker, True)
    for place, spec in enumerate(sorted(spec for spec in specs if spec not in oracles)):
        line, marker = LINES[place % len(LINES)], MARKERS[place % len(MARKERS)]
        found[spec] = Style(spec, names[spec], _pair(place), line, marker, False)
    return found


def _pair(place: int) -> tuple[str, str]:
    size = len(PALETTE)
    if place < size:
        return PALETTE[place]
    # Beyond the palette: between neighbours. Line and marker tell where the eye cannot.
    turn, here = divmod(place, size)
    share = 1 / (turn + 1)
    first, second = PALETTE[here], PALETTE[(here + 1) % size]
    return (_mix(first[0], second[0], share), _mix(first[1], second[1], share))


def _mix(first: str, second: str, share: float) -> str:
    pairs = zip(to_rgb(first), to_rgb(second))
    return to_hex([a + (b - a) * share for a, b in pairs])


def mix(first: str, second: str, share: float) -> str:
    """The colour `share` of the way from the first to the second."""
    return _mix(first, second, share)


def ink_map(theme: Theme) -> LinearSegmentedColormap:
    """From paper to ink."""
    return LinearSegmentedColormap.from_list("ink", [theme.paper, theme.ink])


def settings(theme: Theme) -> dict[str, object]:
    """What matplotlib is told; holds for both shapes."""
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
        "svg.hashsalt": "kvsim",  # the same file for the same figure
    }
