"""The budget of every head at 99 compression ratios, as kvpress' LUKVPress reads it.

In: what the heads of a model lose at several budgets, curves or a sweep. Out: an array; from the
command `python -m kvsim.head_budgets RESULTS.sqlite -o FILE.npy` a file. Read first: `split.py`,
then `hull.py`, which divides. `refined/` measures groups of layers in the running model.
"""

from .split import head_budgets

__all__ = ["head_budgets"]
