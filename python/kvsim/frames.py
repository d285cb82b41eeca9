"""Tables of the engine as pandas frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def frame_of(columns: dict[str, object]) -> pd.DataFrame:
    """The frame of the columns that `_engine` returns.

    Numbers are float64, with NaN for NULL, or int64, and Int64 where a column may be NULL. Texts
    are objects, with None for NULL.
    """
    import pandas as pd

    series = {}
    for name, values in columns.items():
        if isinstance(values, tuple):
            numbers, nulls = values
            values = numbers if nulls is None else pd.arrays.IntegerArray(numbers, nulls)
        elif isinstance(values, list):
            values = pd.Series(values, dtype=object)
        series[name] = values
    return pd.DataFrame(series, copy=False)
