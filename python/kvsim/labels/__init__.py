"""What learned eviction policies train on: oracle/labels/README.md says what each label is.

In: traces and budgets. Out: arrays, in memory or in files. Read first: `run.py`; `units.py` asks
the engine for a unit at a time, `files.py` chooses between `npz.py` and `parquet.py`.
"""

from .run import labels

__all__ = ["labels"]
