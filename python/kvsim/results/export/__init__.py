"""Writes tables of result files as Parquet and Arrow.

In: a result file. Out: a file per table, whose columns have types, meanings and units. Read first:
`run.py`; `schema.py` says which types a table has, and `writers.py` writes batches with pyarrow,
which nothing else here needs.
"""

from .run import export

__all__ = ["export"]
