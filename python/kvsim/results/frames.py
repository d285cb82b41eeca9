"""Tables of the engine as pandas frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .reading import about_table

if TYPE_CHECKING:
    import pandas as pd


def frame_of(columns: dict[str, object], about: dict[str, object] | None = None) -> pd.DataFrame:
    """The frame of the columns that `_engine` returns, with `about` in its attrs, as in Results.

    Without `about` it is the table `replay`.
    Numbers are float64, with NaN for NULL, or int64, and Int64 where a column may be NULL. Texts
    have the type that this pandas gives them, as in Results.
    """
    import pandas as pd

    series = {}
    for name, values in columns.items():
        if isinstance(values, tuple):
            numbers, nulls = values
            values = numbers if nulls is None else pd.arrays.IntegerArray(numbers, nulls)
        elif isinstance(values, list):
            known = any(value is not None for value in values)
            values = pd.Series(values, dtype=None if known else object)
        series[name] = values
    frame = pd.DataFrame(series, copy=False)
    frame.attrs.update(about_table("replay", list(columns)) if about is None else about)
    return frame
