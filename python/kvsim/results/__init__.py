"""Result files, read: tables as pandas frames, and the difference of two policies.

In: a result file (SQLite), or the columns that the engine returns. Out: frames with the meaning of
their columns in `attrs`. Read first: `reading.py`; `database.py` asks SQLite, `frames.py` makes
frames of what the engine returns, `columns.py` has what the engine declares of columns,
`meanings.py` shows it, `points.py` names budgets as they were asked for, `comparison.py` asks the
program for intervals, and `calibration.py` weighs the projected errors of layers by what a running
model loses.
"""

from .reading import NoSuchTable, Results, ResultsError, load

__all__ = ["NoSuchTable", "Results", "ResultsError", "load"]
