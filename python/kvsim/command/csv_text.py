"""Frames as CSV that a spreadsheet may open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors.terminal import say

if TYPE_CHECKING:
    import pandas as pd


def csv_text(frame: pd.DataFrame) -> str:
    """The frame without its index. Texts that a spreadsheet would run get a ' before them.

    A line on standard error names their columns, as of the program.
    """
    marked = [name for name in frame.columns if frame[name].map(_may_be_formula).any()]
    if marked:
        say(
            f"kvsim: a spreadsheet would run some texts of {', '.join(marked)} as formulas: they "
            "have a ' before them; --format json has them as they are"
        )
    quoted = {
        name: frame[name].map(lambda value: f"'{value}" if _may_be_formula(value) else value)
        for name in marked
    }
    return frame.assign(**quoted).to_csv(index=False)


def _may_be_formula(value: object) -> bool:
    return isinstance(value, str) and value.lstrip("'").startswith(tuple("=+-@\t\r"))
