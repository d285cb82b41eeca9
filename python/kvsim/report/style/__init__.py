"""How policies look in every figure: names, colours, lines and markers, on light and dark pages.

In: specs of policies, the registry, a theme and a shape of figure. Out: the same label, colour,
line and marker for a policy in all reports. Read first: `style.py`; `labels.py` shortens specs to
names.
"""

from .style import (
    COLUMN,
    DARK,
    LIGHT,
    MARKERS,
    NARROW,
    PALETTE,
    TEXT,
    THEMES,
    WIDE,
    Shape,
    Style,
    Theme,
    ink_map,
    mix,
    oracle_names,
    policy_names,
    settings,
    styles,
)

__all__ = [
    "COLUMN",
    "DARK",
    "LIGHT",
    "MARKERS",
    "NARROW",
    "PALETTE",
    "TEXT",
    "THEMES",
    "WIDE",
    "Shape",
    "Style",
    "Theme",
    "ink_map",
    "mix",
    "oracle_names",
    "policy_names",
    "settings",
    "styles",
]
